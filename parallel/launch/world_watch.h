// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WorldWatch: what a rank of a joined world sees of the others on its host, which are not its
// children: when one has ended or is stopped. It learns how they ended from Linux 6.15 on
// (PIDFD_GET_INFO), before that only until their parent reaps them.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "base/file.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/guilty_rank.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::launch {

class WorldWatch {
 public:
  explicit WorldWatch(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  // From now on watches `rank`, a process of this host and PID namespace. Not while another thread
  // uses this object; any thread may call the others.
  void add(int rank, const ProcessName& process);
  // Says that `rank`, which is on another host, has ended. Thread-safe.
  void tell_ended(int rank) { at(rank).told_ended = true; }
  bool is_watched(int rank) const { return at(rank).process.pid != 0; }
  bool has_ended(int rank) const;
  bool is_stopped(int rank) const { return state(rank).is_stopped(); }  // reads /proc
  // Its letter is '?' where the rank has ended or is not watched.
  ProcessState state(int rank) const;

  // What there is to see of all ranks now, for guilty_rank.h. A rank that has ended although
  // `complete` is false counts as deserted, and how it ended counts.
  std::vector<RankView> look(const RankChannels& channels, bool complete) const;

 private:
  struct Watched {
    ProcessName process;
    FileDescriptor handle;          // a pidfd; none when it had ended before it was watched
    std::optional<ChildExit> exit;  // once that is known; guarded by mutex_
    std::atomic<bool> told_ended = false;
  };
  ChildExit exit_of(int rank) const;
  Watched& at(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)); }

  mutable std::mutex mutex_;
  mutable std::vector<Watched> ranks_;
};

}  // namespace ddpbench::launch
