// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Watches processes of this host through pidfds and /proc.
#include "parallel/launch/world_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ddpbench::launch {

void WorldWatch::add(int rank, const ProcessName& process) {
  Watched& watched = ranks_.at(static_cast<std::size_t>(rank));
  watched.process = process;
  watched.handle = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!watched.handle && errno != ESRCH) {
    watched.process = {};  // the kernel has no pidfds: nothing is known of the rank
    return;
  }
  // The handle may be that of a later process. It holds its number, so this look is conclusive.
  const auto now = read_process_state(process.pid);
  if (!now || now->start != process.start) watched.handle.reset();
}

bool WorldWatch::has_ended(int rank) const {
  const Watched& watched = at(rank);
  if (watched.process.pid == 0) return false;
  if (!watched.handle) return true;
  pollfd polled{watched.handle.get(), POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

ProcessState WorldWatch::state(int rank) const {
  if (!is_watched(rank) || has_ended(rank)) return {};
  return read_process_state(at(rank).process.pid).value_or(ProcessState{});
}

std::vector<RankSight> WorldWatch::look(const RankChannels& channels, bool complete) const {
  std::vector<RankSight> sights(ranks_.size());
  for (std::size_t i = 0; i < sights.size(); ++i) {
    const int rank = static_cast<int>(i);
    // The end comes first: what a rank wrote before it is then seen.
    const bool ended = has_ended(rank);
    sights[i].status = channels.status(rank);
    const ProcessState now = state(rank);
    sights[i].stopped = now.is_stopped();
    sights[i].activity = now.words();
    if (!ended) continue;
    sights[i].exit = ChildExit{};
    sights[i].deserted = !complete;
  }
  return sights;
}

}  // namespace ddpbench::launch
