// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CallMarks: writes into a rank's channel which calls of its communicator are complete and pending,
// so that a report can say where each rank stood. It also plants the faults of --inject that strike
// calls, and says in the channel while a link is broken.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "bench/options/options.h"
#include "parallel/comm/call_watch.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

class CallMarks final : public comm::CallWatch {
 public:
  // `injections` are this rank's, and strike calls. `writer` outlives this.
  CallMarks(launch::RankWriter& writer, std::vector<Injection> injections);

  // Call it before each step, also of verification and warm-up. Any thread may.
  void begin_step();

  void begun(const comm::Operation& operation) override;
  void done(const comm::Operation& operation) override;
  double hold_up_s() override;
  bool breaks_link() const override;
  bool link_is_broken() override;

 private:
  void write();

  launch::RankWriter& writer_;
  const std::vector<Injection> injections_;
  std::mutex mutex_;                         // guards these, and the writer's calls
  std::vector<launch::CallMark> under_way_;  // in the order in which they began
  launch::CallMark completed_;
  std::uint64_t collectives_ = 0;
  std::map<std::pair<comm::OperationKind, int>, std::uint64_t> messages_;  // by kind and peer
  std::int64_t stalled_step_ = -1;  // that a stall has struck

  std::atomic<std::int64_t> step_ = -1;  // counted over verification, warm-up and training
  std::mutex cut_mutex_;  // over changes of the two below, and the channel's word about them
  std::atomic<double> broken_until_s_ = 0;
  std::atomic<bool> told_cut_ = false;  // the channel says that the link is broken
};

}  // namespace ddpbench::bench
