// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Watches processes of this host through pidfds and /proc.
#include "parallel/launch/world_watch.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace ddpbench::launch {
namespace {

// struct pidfd_info of Linux's <linux/pidfd.h>, which is newer than the headers of many systems.
struct PidfdInfo {
  std::uint64_t mask = 0, cgroup = 0;
  std::uint32_t pid = 0, thread_group = 0, parent = 0, ids[8] = {};
  std::int32_t exit_code = 0;  // a wait status
};
static_assert(sizeof(PidfdInfo) == 64 && offsetof(PidfdInfo, exit_code) == 60,
              "a kernel interface");
constexpr std::uint64_t kExitInfo = 1 << 3;                     // PIDFD_INFO_EXIT
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);  // PIDFD_GET_INFO

// The wait status of a process that has ended. It has one in /proc until its parent awaits it, and
// one at its pidfd from then on.
std::optional<int> wait_status(const ProcessName& process, int handle) {
  const auto now = read_process_state(process.pid);
  if (now && now->start == process.start && now->wait_status) return now->wait_status;
  PidfdInfo info;
  info.mask = kExitInfo;
  if (handle < 0 || ::ioctl(handle, kGetInfo, &info) != 0) return std::nullopt;
  return (info.mask & kExitInfo) != 0 ? std::optional<int>(info.exit_code) : std::nullopt;
}

}  // namespace

void WorldWatch::add(int rank, const ProcessName& process) {
  Watched& watched = ranks_.at(static_cast<std::size_t>(rank));
  watched.process = process;
  watched.handle = open_process(process.pid);
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
  if (watched.process.pid == 0) return watched.told_ended;
  if (!watched.handle) return true;
  if (!ddpbench::has_ended(watched.handle)) return false;
  exit_of(rank);  // the sooner, the more is known
  return true;
}

ChildExit WorldWatch::exit_of(int rank) const {
  Watched& watched = at(rank);
  const std::lock_guard lock(mutex_);
  if (!watched.exit) {
    if (const auto status = wait_status(watched.process, watched.handle.get())) {
      watched.exit = exit_by(*status);
    }
  }
  return watched.exit.value_or(ChildExit{.is_known = false});
}

ProcessState WorldWatch::state(int rank) const {
  if (!is_watched(rank) || has_ended(rank)) return {};
  return read_process_state(at(rank).process.pid).value_or(ProcessState{});
}

std::vector<RankView> WorldWatch::look(const RankChannels& channels, bool complete) const {
  std::vector<RankView> views(ranks_.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const int rank = static_cast<int>(i);
    // The end comes first: what a rank wrote before it is then seen.
    const bool ended = has_ended(rank);
    views[i].status = channels.status(rank);
    views[i].stopped = is_stopped(rank);
    if (!ended) continue;
    views[i].exit = complete ? ChildExit{.is_known = false} : exit_of(rank);
    views[i].deserted = !complete;
  }
  return views;
}

}  // namespace ddpbench::launch
