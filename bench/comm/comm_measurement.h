// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's measurement of all rows of a world of `ddpbench comm`.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/comm/collective_rank.h"
#include "bench/comm/comm_job.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

class CommMeasurement {
 public:
  // Collective. The calling thread leads the device. Keeps references to `job` and `writer`.
  CommMeasurement(const CommJob& job, int rank, std::unique_ptr<comm::Communicator> world,
                  std::unique_ptr<Device> device, launch::RankWriter& writer);

  comm::Communicator& world() { return rank_.world(); }
  // Collective. Leaves times and results in the rank's channel. When it throws, the others' waits
  // have been ended.
  void run();

 private:
  void measure_memory();
  void measure(std::size_t row);
  void take_times(std::size_t row);

  const CommJob& job_;
  launch::RankWriter& writer_;
  CollectiveRank rank_;
  CommRankResult result_;
  std::uint64_t steps_ = 0;
  int taken_ = 0;          // iterations of this row whose times are known, with the warm-up's
  std::int64_t late_ = 0;  // timed iterations of this row that were late
};

}  // namespace ddpbench::bench
