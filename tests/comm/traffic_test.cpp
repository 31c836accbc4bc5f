// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the plan of a call says (add_shm_traffic) is what its ranks take from each other.
#include <gtest/gtest.h>

#include <vector>

#include "parallel/comm/shm/shm.h"
#include "tests/comm/rank_runner.h"
#include "tests/comm/traffic_checks.h"

namespace ddpbench::comm::testing {
namespace {

TEST(ShmTraffic, OfThreadsIsAsPlanned) {
  for (const AllReduceAlgorithm wanted :
       {AllReduceAlgorithm::automatic, AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
    ShmOptions options = test_options();
    options.all_reduce = wanted;
    for (const int size : {1, 2, 3, 5}) {
      const auto collectives = [&](Communicator& c) {
        std::vector<float> data(traffic_bytes(size) / sizeof(float));
        check_collective_traffic(c, wanted, data.data(), true, add_shm_traffic);
      };
      run_ranks(RankKind::threads, size, collectives, options).expect_success();
    }
  }
}

TEST(ShmTraffic, OfProcessesIsAsPlannedInRegisteredMemoryAndInOther) {
  for (const int size : {2, 3}) {
    const auto collectives = [&](Communicator& c) {
      std::vector<float> own(traffic_bytes(size) / sizeof(float));
      check_collective_traffic(c, AllReduceAlgorithm::automatic, own.data(), false,
                               add_shm_traffic);
      const Buffer buffer = mappable_buffer(traffic_bytes(size));
      c.register_buffer(buffer);
      check_collective_traffic(c, AllReduceAlgorithm::automatic, buffer.view().as<float>().data(),
                               true, add_shm_traffic);
      c.deregister_buffer(buffer);
    };
    run_ranks(RankKind::processes, size, collectives).expect_success();
  }
}

TEST(ShmTraffic, OfMessagesIsThatOfTheReceiver) {
  for (const RankKind kind : {RankKind::threads, RankKind::processes}) {
    run_ranks(kind, 3, [](Communicator& c) {
      check_message_traffic(c, add_shm_traffic);
    }).expect_success();
  }
}

}  // namespace
}  // namespace ddpbench::comm::testing
