// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedPeers: the other ranks of a joined world, as one rank sees them: how it meets them, whether
// their processes live, and which rank writes the report of a run that fails.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/joined/joined_board.h"
#include "bench/joined/joined_plan.h"
#include "bench/joined/joined_store.h"
#include "bench/joined/joined_verdict.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/host_claim.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/world_watch.h"

namespace ddpbench::bench {

class JoinedPeers {
 public:
  // `limit_s`: the limit of each wait.
  JoinedPeers(const launch::RankEnvironment& environment, double limit_s);
  JoinedPeers(const JoinedPeers&) = delete;
  JoinedPeers& operator=(const JoinedPeers&) = delete;

  JoinedStore& store() { return store_; }

  // Meets the other ranks: each is there once, on this host, with the same `plan`. From then on
  // they see each other's processes, and have a board that outlives each of them. Throws
  // ConfigError and WorldFailure; see JoinedStore. A rank 0 that does not come or is gone is a
  // WorldFailure, too.
  void join(const PlanValues& plan);
  JoinedBoard* board() { return board_ ? &*board_ : nullptr; }  // null before join()
  bool is_complete() const { return board_ && board_->is_complete(); }

  // Returns the value that rank 0 shares when it has made it. The limit holds only for a rank 0
  // that is stopped: how long it works is known to itself. REQUIRES: join() was called.
  std::string await_made(const std::string& key);

  // Throws where waiting for others is in vain: Interrupted, or a WorldFailure when a rank has
  // failed or its process has ended. Not after the world is complete.
  void check();
  // The same as a reason; empty: go on.
  std::string reason_to_end();

  // Whether a signal has asked this process to end. If so the others can see it from now on, so
  // that they know why this rank fails: whatever ends the rank for a signal must ask here first.
  // Any thread may.
  bool is_told_to_end();

  // To be called when this rank has failed. `channels` have the areas of all ranks.
  WorldSight look(const launch::RankChannels& channels) const;
  // Whether this rank writes the report: rank 0, or the lowest rank that can; where rank 0 was gone
  // before all had joined, the first to ask. Waits until it is written by another: a rank that ends
  // before makes the launcher end the world.
  bool takes_report();
  // To be called when this rank has written the report.
  void tell_written();
  // Waits a moment for the others to fail, finish or end, too.
  void settle(const launch::RankChannels& channels) const;

 private:
  void meet(const PlanValues& plan);
  bool takes_report_of_nobody();
  std::optional<int> first_lost() const;

  launch::RankEnvironment environment_;
  JoinedStore store_;
  std::optional<JoinedBoard> board_;  // from join() on
  launch::WorldWatch watch_;          // sees the other ranks from join() on
  bool lacks_first_ = false;          // rank 0 was not there, or gone before all had joined
  launch::HostClaim claim_;           // on the report, where rank 0 is lacking
};

// While this object lives, a reason to end ends this rank's waits in `communicators`.
class EndWatch {
 public:
  // `reason` says why to end, on a thread of this object; empty: go on.
  EndWatch(std::vector<comm::Communicator*> communicators, std::function<std::string()> reason);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  void watch();

  std::vector<comm::Communicator*> communicators_;
  std::function<std::string()> reason_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ddpbench::bench
