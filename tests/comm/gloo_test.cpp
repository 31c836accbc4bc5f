// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// gloo between processes of one host: the checks of all engines, and what ranks see
// when others do not come, die, stop, leave or abort.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/comm_module.h"
#include "parallel/comm/store/store.h"
#include "tests/comm/conformance.h"
#include "tests/comm/engine_checks.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

WorldOptions gloo_options() {
  WorldOptions options;
  options.timeout_s = 60;
  return options;
}

Outcome run_gloo(int size, const RankFunction& function) {
  return run_processes(size, [&](Store& store, int rank) {
    function(*engine_module().make(store, rank, size, gloo_options()));
  });
}

class GlooWorlds : public ::testing::TestWithParam<int> {};

TEST_P(GlooWorlds, PassAllChecksOfEngines) {
  const Outcome outcome = run_gloo(GetParam(), [](Communicator& c) {
    check(c.backend() == "gloo", "another backend");
    for (const EngineCheck& one : engine_checks()) {
      try {
        one.run(c);
      } catch (const std::exception& error) {
        throw std::runtime_error(fmt::format("{}: {}", one.name, error.what()));
      }
    }
  });
  outcome.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Gloo, GlooWorlds, ::testing::Values(2, 3, 4, 7));

// Who did not come is told by the calls of all ranks, which the supervisor sees.
TEST(GlooFailure, ARankThatDoesNotComeEndsTheOthersAtTheirDeadline) {
  const Outcome outcome = run_gloo(3, [](Communicator& c) {
    std::vector<float> data(50'000);
    if (c.rank() == 2) return sleep_s(1);
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
        .synchronize(deadline_after(0.3));
  });
  for (const std::size_t waiting : {0U, 1U}) {
    EXPECT_THAT(outcome.errors[waiting], HasSubstr("all_reduce of 200000 bytes"));
  }
  EXPECT_THAT(outcome.errors, Contains(HasSubstr("deadline passed")));
}

TEST(GlooFailure, APassedDeadlineOfAMessageLeavesItUnderWay) {
  run_gloo(2, check_a_passed_deadline_leaves_a_message_under_way).expect_success();
}

// The others learn of it by their connections, which end.
TEST(GlooFailure, AbortFromAnotherThreadEndsAllRanks) {
  const Outcome outcome = run_gloo(3, [](Communicator& c) {
    std::vector<float> data(50'000);
    float value = 0;
    if (c.rank() == 0) {
      std::thread aborter([&] {
        sleep_s(0.02);
        c.abort("the user changed his mind");
      });
      std::string error;
      try {
        c.recv({&value, 1}, 1, kDeferred).synchronize();
      } catch (const CommError& aborted) {
        error = aborted.what();
      }
      aborter.join();
      throw CommError(error);
    }
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum, c.rank() == 1 ? kDeferred : kNow)
        .synchronize();
  });
  EXPECT_THAT(outcome.errors[0], HasSubstr("aborted by rank 0: the user changed his mind"));
  for (const std::size_t other : {1U, 2U}) {
    EXPECT_THAT(outcome.errors[other], HasSubstr("all_reduce of 200000 bytes"));
  }
}

TEST(GlooFailure, ARankThatLeavesEndsTheCallsOfTheOthers) {
  const Outcome outcome = run_gloo(2, [](Communicator& c) {
    c.barrier().synchronize();
    if (c.rank() == 1) return;
    std::vector<float> data(50'000);
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
  });
  EXPECT_THAT(outcome.errors[0], HasSubstr("all_reduce of 200000 bytes"));
  EXPECT_EQ(outcome.errors[1], "");
}

TEST(GlooFailure, AKilledRankEndsTheCallsOfTheOthersLongBeforeTheDeadline) {
  for (const bool receives : {false, true}) {
    const Outcome outcome = run_gloo(3, [&](Communicator& c) {
      std::vector<float> data(50'000);
      c.barrier().synchronize();
      if (c.rank() == 1) {
        sleep_s(0.02);
        ::kill(::getpid(), SIGKILL);
      }
      if (receives) c.recv({data.data(), data.size()}, 1, kNow).synchronize();
      c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
    });
    EXPECT_EQ(outcome.errors[1], "signal 9");
    for (const std::size_t survivor : {0U, 2U}) {
      EXPECT_THAT(outcome.errors[survivor],
                  HasSubstr(receives ? "recv of 200000 bytes from rank 1" : "all_reduce of"));
    }
  }
}

// A process that is stopped cannot say that it is there.
TEST(GlooFailure, AStoppedRankEndsTheOthersAtTheirDeadline) {
  const Outcome outcome = run_gloo(3, [](Communicator& c) {
    std::vector<float> data(50'000);
    c.barrier().synchronize();
    if (c.rank() == 1) stop_this_process(1.5);  // the others give up meanwhile
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
        .synchronize(deadline_after(0.5));
  });
  EXPECT_THAT(outcome.errors, Contains(HasSubstr("deadline passed")));
  EXPECT_THAT(outcome.errors, Each(HasSubstr("all_reduce of 200000 bytes")));
}

TEST(GlooFailure, ARankThatDoesNotJoinIsNamed) {
  WorldOptions options = gloo_options();
  options.timeout_s = 0.3;
  const auto store = make_local_store();
  try {
    engine_module().make(*store, 0, 2, options);
    FAIL() << "it joined nobody";
  } catch (const CommTimeout& late) {
    EXPECT_THAT(late.what(), HasSubstr("rank 1 did not join"));
  }
}

}  // namespace
}  // namespace ddpbench::comm::testing
