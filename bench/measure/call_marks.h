// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CallMarks: writes into a rank's channel which calls of its communicator are complete and pending,
// so that a report can say where each rank stood. It also plants the faults of --inject that strike
// calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "bench/options/options.h"
#include "parallel/comm/communicator.h"
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
};

}  // namespace ddpbench::bench
