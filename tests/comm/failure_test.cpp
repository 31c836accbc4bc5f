// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks see when others do not come, die, leave, abort, or call another operation. No test
// waits for a long deadline: if one passed, the error would not be the expected one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/store/store.h"
#include "tests/comm/conformance.h"
#include "tests/comm/killed_rank.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Runs `function` and returns its CommError's message, marked when it is a CommTimeout.
template <typename F>
std::string comm_error_of(F&& function) {
  try {
    function();
    return "no error";
  } catch (const CommTimeout& error) {
    return fmt::format("timeout: {}", error.what());
  } catch (const CommError& error) {
    return fmt::format("error: {}", error.what());
  }
}

// The operation that CommError::operation names.
template <typename F>
std::string operation_of(F&& function) {
  try {
    function();
    return "no error";
  } catch (const CommError& error) {
    return std::string(error.operation());
  }
}

void check_has(const std::string& text, const std::string& part) {
  check(text.find(part) != std::string::npos, fmt::format("'{}' is not in '{}'", part, text));
}

class FailureTest : public ::testing::TestWithParam<RankKind> {
 protected:
  static Outcome on_all_ranks(int size, const RankFunction& function,
                              const WorldOptions& options = test_options()) {
    return run_ranks(GetParam(), size, function, options);
  }
};

TEST_P(FailureTest, ARankThatDoesNotComeIsNamedWhenTheDeadlinePasses) {
  on_all_ranks(3, [](Communicator& c) {
    std::vector<float> data(50'000);
    const std::string error = comm_error_of([&] {
      if (c.rank() == 2) {  // does not call; sees that the others gave up
        while (true) {
          c.send({data.data(), 1}, 2, kDeferred);
          sleep_s(0.001);
        }
      }
      c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
          .synchronize(deadline_after(0.2));
    });
    if (c.rank() == 2) return check_has(error, "aborted by rank");
    // The second of the two may see the first one's abort before its own deadline.
    check_has(error, "all_reduce of 200000 bytes");
    check_has(error, "rank 2, which did not come");
  }).expect_success();
}

TEST_P(FailureTest, TheCommunicationThreadHasTheDefaultDeadline) {
  WorldOptions options = test_options();
  options.timeout_s = 0.2;
  on_all_ranks(
      2,
      [](Communicator& c) {
        float value = 0;
        if (c.rank() == 1) {
          check_has(comm_error_of([&] {
                      while (true) {
                        c.send({&value, 1}, 1, kDeferred);
                        sleep_s(0.001);
                      }
                    }),
                    "rank 1, which did not come");
          return;
        }
        const Work work = c.barrier(kNow);
        sleep_s(1);  // it does not run the barrier, other than synchronize
        const std::string error = comm_error_of([&] { work.synchronize(); });
        check_has(error, "timeout: rank 0 of 2: barrier");
      },
      options)
      .expect_success();
}

TEST_P(FailureTest, APassedDeadlineOfAMessageLeavesItUnderWay) {
  on_all_ranks(2, check_a_passed_deadline_leaves_a_message_under_way).expect_success();
}

TEST_P(FailureTest, RanksThatCallDifferentOperationsAreToldSo) {
  using Call = std::function<void(Communicator&, float*)>;
  const std::vector<std::pair<Call, Call>> pairs = {
      {[](Communicator& c, float* d) {
         c.all_reduce({d, 100}, ReduceOp::sum).synchronize();
       },
       [](Communicator& c, float* d) {
         c.all_reduce({d, 101}, ReduceOp::sum).synchronize();
       }},
      {[](Communicator& c, float* d) {
         c.all_reduce({d, 9000}, ReduceOp::sum).synchronize();
       },
       [](Communicator& c, float* d) {
         c.all_reduce({d, 9001}, ReduceOp::sum).synchronize();
       }},
      {[](Communicator& c, float* d) {
         c.all_reduce({d, 9000}, ReduceOp::sum).synchronize();
       },
       [](Communicator& c, float* d) {
         c.all_reduce({d, 100}, ReduceOp::sum).synchronize();
       }},
      {[](Communicator& c, float* d) {
         c.all_reduce({d, 9000}, ReduceOp::sum).synchronize();
       },
       [](Communicator& c, float* d) {
         c.all_reduce({d, 9000}, ReduceOp::average).synchronize();
       }},
      {[](Communicator& c, float* d) {
         c.all_reduce({d, 9000}, ReduceOp::sum).synchronize();
       },
       [](Communicator& c, float* d) {
         c.all_reduce({d, 9000, DataType::int32}, ReduceOp::sum).synchronize();
       }},
      {[](Communicator& c, float* d) {
         c.all_reduce({d, 9000}, ReduceOp::sum).synchronize();
       },
       [](Communicator& c, float*) { c.barrier().synchronize(); }},
      {[](Communicator& c, float* d) {
         c.broadcast({d, 9000}, 0).synchronize();
       },
       [](Communicator& c, float* d) {
         c.broadcast({d, 9000}, 1).synchronize();
       }},
      {[](Communicator& c, float* d) {
         c.broadcast({d, 9000}, 0).synchronize();
       },
       [](Communicator& c, float* d) {
         c.all_reduce({d, 9000}, ReduceOp::sum).synchronize();
       }},
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Outcome outcome = on_all_ranks(2, [&](Communicator& c) {
      std::vector<float> data(20'000);
      (c.rank() == 0 ? pairs[i].first : pairs[i].second)(c, data.data());
      c.barrier().synchronize();  // an eager call may have passed
    });
    EXPECT_THAT(outcome.errors, Each(HasSubstr("ranks disagree"))) << "pair " << i;
  }
}

TEST_P(FailureTest, AMessageOfAnotherSizeIsAnErrorOnBothSides) {
  const Outcome outcome = on_all_ranks(2, [](Communicator& c) {
    std::vector<float> data(10);
    if (c.rank() == 0) c.send({data.data(), 10}, 1).synchronize();
    if (c.rank() == 1) c.recv({data.data(), 9}, 0).synchronize();
  });
  EXPECT_THAT(outcome.errors, Each(HasSubstr("the message has 10 fp32, but 9 fp32 are expected")));
}

TEST_P(FailureTest, AbortFromAnotherThreadReachesAllRanksWithItsReason) {
  const Outcome outcome = on_all_ranks(3, [](Communicator& c) {
    std::vector<float> data(50'000);
    if (c.rank() == 0) {
      std::thread aborter([&] {
        sleep_s(0.02);
        c.abort("the user changed his mind");
      });
      float value = 0;
      const std::string error = comm_error_of([&] {
        c.recv({&value, 1}, 1, kDeferred).synchronize();
      });
      aborter.join();
      throw CommError(error);
    }
    // One rank waits itself; the other leaves the work to its communication thread.
    const Work work =
        c.all_reduce({data.data(), data.size()}, ReduceOp::sum, c.rank() == 1 ? kDeferred : kNow);
    work.synchronize();
  });
  EXPECT_THAT(outcome.errors, Each(HasSubstr("aborted by rank 0: the user changed his mind")));
}

TEST_P(FailureTest, CallsAfterAnAbortFail) {
  auto ranks = make_thread_shm(2, test_options());
  const Work before = ranks[1]->barrier(kDeferred);
  EXPECT_NO_THROW(ranks[1]->check());
  ranks[0]->abort("over");
  EXPECT_THAT([&] { ranks[1]->check(); },
              ::testing::ThrowsMessage<CommError>(HasSubstr("aborted by rank 0: over")));
  EXPECT_THROW(before.synchronize(), CommError);
  EXPECT_THROW(ranks[1]->barrier(), CommError);
  EXPECT_THROW(ranks[0]->barrier(), CommError);
}

TEST_P(FailureTest, ARankThatLeavesIsNamed) {
  const Outcome outcome = on_all_ranks(2, [](Communicator& c) {
    c.barrier().synchronize();
    if (c.rank() == 1) return;
    std::vector<float> data(50'000);
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
  });
  EXPECT_THAT(outcome.errors[0], AllOf(HasSubstr("rank 1"), HasSubstr("has left")));
  EXPECT_EQ(outcome.errors[1], "");
}

TEST_P(FailureTest, ASenderThatLeavesIsNamed) {
  const Outcome outcome = on_all_ranks(2, [](Communicator& c) {
    float value = 0;
    if (c.rank() == 0) c.recv({&value, 1}, 1, kNow).synchronize();
  });
  EXPECT_THAT(outcome.errors[0], AllOf(HasSubstr("rank 1"), HasSubstr("has left")));
}

TEST_P(FailureTest, ErrorsNameTheOperationApartFromTheirMessage) {
  on_all_ranks(2, [](Communicator& c) {
    std::vector<float> data(50'000);
    float value = 0;
    const Work recv = c.rank() == 0 ? c.recv({&value, 1}, 1, kDeferred) : Work();
    if (c.rank() == 0) {
      check(operation_of([&] { recv.synchronize(deadline_after(0)); }) == "recv",
            "a message's deadline names another operation");
    }
    c.barrier(kDeferred).synchronize();
    if (c.rank() == 1) return;  // and so leaves the communicator
    check(operation_of([&] {
            c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred).synchronize();
          }) == "all_reduce",
          "the loss of a peer names another operation");
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(Ranks, FailureTest,
                         ::testing::Values(RankKind::threads, RankKind::processes),
                         [](const auto& tested) {
                           return tested.param == RankKind::threads ? "Threads" : "Processes";
                         });

class KilledRank : public ::testing::TestWithParam<Meanwhile> {};

TEST_P(KilledRank, IsNamedByItsSurvivorsLongBeforeTheDeadline) {
  expect_killed_rank_named(GetParam(), [](int size, const RankFunction& function) {
    return run_ranks(RankKind::processes, size, function);
  });
}

INSTANTIATE_TEST_SUITE_P(While, KilledRank, ::testing::ValuesIn(kMeanwhiles), meanwhile_name);

TEST(Rendezvous, TimesOutNamingTheRankThatDoesNotJoin) {
  const auto store = make_local_store();
  WorldOptions options = test_options();
  options.timeout_s = 0.05;
  EXPECT_THAT(comm_error_of([&] { make_shm(*store, 0, 2, options); }),
              AllOf(HasSubstr("timeout"), HasSubstr("rank 1 did not join")));
  EXPECT_THAT(comm_error_of([&] { make_shm(*make_local_store(), 1, 2, options); }),
              HasSubstr("timeout"));
}

TEST(Rendezvous, RefusesAPeerOnAnotherHost) {
  const auto store = make_local_store();
  store->set("world/control", "another boot pid:[1]\nmemfd:1:1:4096");
  EXPECT_THAT(comm_error_of([&] { make_shm(*store, 1, 2, test_options()); }),
              HasSubstr("another host"));
}

}  // namespace
}  // namespace ddpbench::comm::testing
