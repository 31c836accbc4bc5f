// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The work of the processes of `ddpbench comm`: CommMeasurement, one rank's measurement of all rows
// of a world, and a process with one rank, or with all of them as threads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "bench/comm/collective_rank.h"
#include "bench/comm/comm_job.h"
#include "bench/rank/rank_devices.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

class CommMeasurement {
 public:
  // Collective. The calling thread leads the rank's device, which is among `devices`. `world`: of
  // the communicator, but what the job says. Keeps references to `job` and `writer`.
  CommMeasurement(const CommJob& job, const DevicePlan& devices, int rank, comm::Store& store,
                  launch::RankWriter& writer, WorldOptions world = {});

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

inline constexpr const char* kCommKind = "comm";

// A RankJob (rank_main.h) whose description is a CommJob. Measures all rows and leaves times and
// results in the channels.
int run_comm_ranks(const nlohmann::json& description, const launch::RankEnvironment& environment,
                   launch::RankChannels& channels, bool& left_behind);

}  // namespace ddpbench::bench
