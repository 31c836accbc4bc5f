// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// shm between threads and processes of one host conforms (conformance.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/comm/conformance.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

struct World {
  RankKind kind;
  int size;
  bool registered;
};

std::string name_of(const ::testing::TestParamInfo<World>& tested) {
  return fmt::format("{}{}{}", tested.param.size,
                     tested.param.kind == RankKind::threads ? "Threads" : "Processes",
                     tested.param.registered ? "Registered" : "");
}

class CollectiveTest : public ::testing::TestWithParam<World> {
 protected:
  void on_all_ranks(void (*check)(Communicator&, bool),
                    const WorldOptions& options = test_options()) {
    run_ranks(
        GetParam().kind, GetParam().size, [&](Communicator& c) { check(c, GetParam().registered); },
        options)
        .expect_success();
  }
};

TEST_P(CollectiveTest, AllReduceEqualsAPlainReductionForEveryCount) {
  on_all_ranks(check_all_reduce_for_every_count);
}

TEST_P(CollectiveTest, AllReduceByTheRingEqualsAPlainReduction) {
  WorldOptions options = test_options();
  options.all_reduce = AllReduceAlgorithm::ring;
  on_all_ranks(check_all_reduce_for_every_count, options);
}

TEST_P(CollectiveTest, AllReduceTellsWhichAlgorithmRanInMemoryThatPeersCanRead) {
  using Algorithms = std::vector<AllReduceAlgorithm>;
  const bool readable = GetParam().registered || GetParam().kind == RankKind::threads;
  for (const AllReduceAlgorithm asked :
       {AllReduceAlgorithm::automatic, AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
    const bool ring = asked == AllReduceAlgorithm::ring;
    WorldOptions options = test_options();
    options.all_reduce = asked;
    run_ranks(
        GetParam().kind, GetParam().size,
        [&](Communicator& c) {
          check(c.all_reduces_run().empty(), "an algorithm before the first operation");
          check_all_reduce_for_every_count(c, GetParam().registered);
          Algorithms expected;
          if (readable && c.size() > 1) {
            expected = {ring ? AllReduceAlgorithm::ring : AllReduceAlgorithm::direct};
          }
          check(c.all_reduces_run() == expected, "another algorithm ran");
        },
        options)
        .expect_success();
  }
}

TEST_P(CollectiveTest, AllReduceKnowsEveryType) { on_all_ranks(check_all_reduce_of_every_type); }

TEST_P(CollectiveTest, AllReduceKnowsNarrowTypes) {
  on_all_ranks(check_all_reduce_of_narrow_types);
}

TEST_P(CollectiveTest, AllReduceWorksWhereABufferDoesNotBegin) {
  on_all_ranks(check_all_reduce_where_a_buffer_does_not_begin);
}

TEST_P(CollectiveTest, ReduceLeavesTheResultOnEveryRoot) { on_all_ranks(check_reduce); }

TEST_P(CollectiveTest, BroadcastBringsTheRootsDataToAll) { on_all_ranks(check_broadcast); }

TEST_P(CollectiveTest, AllGatherPutsEveryPartInItsPlace) { on_all_ranks(check_all_gather); }

TEST_P(CollectiveTest, ReduceScatterGivesEveryRankItsPart) { on_all_ranks(check_reduce_scatter); }

TEST_P(CollectiveTest, ScatterAndGatherMovePartsToAndFromEveryRoot) {
  on_all_ranks(check_scatter_and_gather);
}

TEST_P(CollectiveTest, RanksWithAndWithoutRegisteredMemoryWorkTogether) {
  on_all_ranks(check_mixed_memory);
}

TEST_P(CollectiveTest, AllReduceIsBitIdenticalOnAllRanksAndBetweenRuns) {
  on_all_ranks(check_all_reduce_is_bit_identical);
}

std::vector<World> worlds(RankKind kind) {
  std::vector<World> all;
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    all.push_back({kind, size, false});
    if (kind == RankKind::processes) all.push_back({kind, size, true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Threads, CollectiveTest, ::testing::ValuesIn(worlds(RankKind::threads)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Processes, CollectiveTest,
                         ::testing::ValuesIn(worlds(RankKind::processes)), name_of);

}  // namespace
}  // namespace ddpbench::comm::testing
