// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// gloo between threads and processes of one host: the checks of all engines, and what ranks see
// when others do not come, die, stop, leave, abort, or call another operation.
#include "parallel/comm/gloo/gloo.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "parallel/comm/store/store.h"
#include "parallel/comm/wire/wire_traffic.h"
#include "tests/comm/conformance.h"
#include "tests/comm/engine_checks.h"
#include "tests/comm/killed_rank.h"
#include "tests/comm/rank_runner.h"
#include "tests/comm/traffic_checks.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

EngineOptions gloo_options() {
  EngineOptions options;
  options.timeout_s = 60;
  return options;
}

Outcome run_gloo(RankKind kind, int size, const RankFunction& function,
                 const EngineOptions& options = gloo_options()) {
  return run_ranks(kind, size, function,
                   WorldMaker{[&](Store& store, int rank, int ranks) {
                                return make_gloo(store, rank, ranks, options);
                              },
                              [&](int ranks) { return make_thread_gloo(ranks, options); }});
}

struct GlooWorld {
  RankKind kind;
  int size;
};

std::string gloo_world_name(const ::testing::TestParamInfo<GlooWorld>& tested) {
  return fmt::format("{}{}", tested.param.size,
                     tested.param.kind == RankKind::threads ? "Threads" : "Processes");
}

std::vector<GlooWorld> gloo_worlds() {
  std::vector<GlooWorld> worlds;
  for (int size = 1; size <= 8; ++size) worlds.push_back({RankKind::processes, size});
  for (const int size : {1, 2, 5}) worlds.push_back({RankKind::threads, size});
  return worlds;
}

class GlooWorlds : public ::testing::TestWithParam<GlooWorld> {};

TEST_P(GlooWorlds, PassAllChecksOfEngines) {
  const Outcome outcome = run_gloo(GetParam().kind, GetParam().size, [](Communicator& c) {
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

TEST_P(GlooWorlds, ReduceAroundTheRingWhenAsked) {
  EngineOptions options = gloo_options();
  options.all_reduce = AllReduceAlgorithm::ring;
  const auto ring = [](Communicator& c) {
    check(c.all_reduces_run().empty(), "an algorithm before the first operation");
    check_all_reduce_for_every_count(c, false);
    check_all_reduce_is_bit_identical(c, false);
    const std::vector<AllReduceAlgorithm> wanted = {AllReduceAlgorithm::ring};
    check(c.size() == 1 || c.all_reduces_run() == wanted, "another algorithm ran");
  };
  run_gloo(GetParam().kind, GetParam().size, ring, options).expect_success();
}

TEST_P(GlooWorlds, ChooseTheAlgorithmByBytesAndRanks) {
  run_gloo(GetParam().kind, GetParam().size, [](Communicator& c) {
    if (c.size() == 1) return;
    std::vector<AllReduceAlgorithm> wanted = {AllReduceAlgorithm::direct};
    std::vector<float> data(100'000);
    c.all_reduce({data.data(), 100}, ReduceOp::sum).synchronize();
    check(c.all_reduces_run() == wanted, "few bytes took the ring");
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
    if (c.size() >= 3) wanted = {AllReduceAlgorithm::ring, AllReduceAlgorithm::direct};
    check(c.all_reduces_run() == wanted, "many bytes took another algorithm");
  }).expect_success();
}

TEST_P(GlooWorlds, TakeFromEachOtherWhatIsPlanned) {
  for (const AllReduceAlgorithm wanted :
       {AllReduceAlgorithm::automatic, AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
    EngineOptions options = gloo_options();
    options.all_reduce = wanted;
    const auto compare = [wanted](Communicator& c) {
      std::vector<float> data(traffic_bytes(c.size()) / sizeof(float));
      check_collective_traffic(c, wanted, data.data(), true, add_wire_traffic);
      if (c.size() > 1) check_message_traffic(c, add_wire_traffic);
    };
    run_gloo(GetParam().kind, GetParam().size, compare, options).expect_success();
  }
}

INSTANTIATE_TEST_SUITE_P(Gloo, GlooWorlds, ::testing::ValuesIn(gloo_worlds()), gloo_world_name);

// The network's part of `ps` over hosts is in these times.
TEST(GlooTimes, AReceiverWaitsUntilTheSenderBeginsNotUntilItEnds) {
  run_gloo(RankKind::processes, 2, [](Communicator& c) {
    std::vector<float> data(16 << 20);
    c.barrier().synchronize();
    double sent_s = 0;
    Work work;
    if (c.rank() == 0) {
      sleep_s(0.02);
      sent_s = steady_s();
      work = c.send({data.data(), data.size()}, 1, kDeferred);
    } else {
      work = c.recv({data.data(), data.size()}, 0, kDeferred);
    }
    work.synchronize();
    c.broadcast({&sent_s, 1, DataType::fp64}, 0).synchronize();
    if (c.rank() == 0) return;
    const WorkTimes times = work.times();
    check(times.arrived_s - times.start_s > 0.01, "it did not wait for the sender");
    check(times.arrived_s - sent_s < 0.5 * (times.end_s - sent_s),
          fmt::format("arrived {} s and done {} s after the send", times.arrived_s - sent_s,
                      times.end_s - sent_s));
  }).expect_success();
}

TEST(GlooFailure, ARankThatDoesNotComeIsNamedWhenTheDeadlinePasses) {
  const Outcome outcome = run_gloo(RankKind::processes, 3, [](Communicator& c) {
    std::vector<float> data(50'000);
    if (c.rank() == 2) return check_until_it_fails(c);
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
        .synchronize(deadline_after(0.3));
  });
  for (const int waiting : {0, 1}) {
    EXPECT_THAT(
        outcome.errors[static_cast<std::size_t>(waiting)],
        AllOf(HasSubstr("all_reduce of 200000 bytes"), HasSubstr("rank 2, which did not come")));
  }
  EXPECT_THAT(outcome.errors[2], HasSubstr("aborted by rank"));
}

TEST(GlooFailure, APassedDeadlineOfAMessageLeavesItUnderWay) {
  run_gloo(RankKind::processes, 2, check_a_passed_deadline_leaves_a_message_under_way)
      .expect_success();
}

// Whether a disagreement's words for the one call and for the other differ.
bool tells_two_calls(const std::string& error) {
  static const std::regex calls(" calls (.*), rank [0-9]+ calls (.*)");
  std::smatch found;
  return std::regex_search(error, found, calls) && found[1] != found[2];
}

TEST(GlooFailure, RanksThatCallDifferentOperationsAreToldSo) {
  for (const EngineCheck& calls : disagreements()) {
    const Outcome outcome = run_gloo(RankKind::processes, 2, calls.run);
    EXPECT_THAT(outcome.errors, Each(HasSubstr("ranks disagree"))) << calls.name;
    for (const std::string& error : outcome.errors) EXPECT_TRUE(tells_two_calls(error)) << error;
  }
}

TEST(GlooFailure, AMessageOfAnotherSizeIsAnErrorOnBothSides) {
  const Outcome outcome = run_gloo(RankKind::processes, 2, [](Communicator& c) {
    std::vector<float> data(10);
    if (c.rank() == 0) c.send({data.data(), 10}, 1).synchronize();
    if (c.rank() == 1) c.recv({data.data(), 9}, 0).synchronize();
  });
  EXPECT_THAT(outcome.errors, Each(HasSubstr("the message has 10 fp32, but 9 fp32 are expected")));
}

TEST(GlooFailure, AbortFromAnotherThreadReachesAllRanksWithItsReason) {
  const Outcome outcome = run_gloo(RankKind::threads, 3, [](Communicator& c) {
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
  EXPECT_THAT(outcome.errors, Each(HasSubstr("aborted by rank 0: the user changed his mind")));
}

TEST(GlooFailure, ARankThatLeavesIsNamed) {
  const Outcome outcome = run_gloo(RankKind::processes, 2, [](Communicator& c) {
    c.barrier().synchronize();
    if (c.rank() == 1) return;
    std::vector<float> data(50'000);
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
  });
  EXPECT_THAT(outcome.errors[0], AllOf(HasSubstr("rank 1"), HasSubstr("has left")));
  EXPECT_EQ(outcome.errors[1], "");
}

class GlooKilledRank : public ::testing::TestWithParam<Meanwhile> {};

TEST_P(GlooKilledRank, IsNamedByItsSurvivorsLongBeforeTheDeadline) {
  expect_killed_rank_named(GetParam(), [](int size, const RankFunction& function) {
    return run_gloo(RankKind::processes, size, function);
  });
}

INSTANTIATE_TEST_SUITE_P(While, GlooKilledRank, ::testing::ValuesIn(kMeanwhiles), meanwhile_name);

// A process that is stopped cannot say that it is there.
TEST(GlooFailure, AStoppedRankIsNamedWhenTheDeadlinePasses) {
  const Outcome outcome = run_gloo(RankKind::processes, 3, [](Communicator& c) {
    std::vector<float> data(50'000);
    c.barrier().synchronize();
    if (c.rank() == 1) {
      stop_this_process(1.5);  // the others give up meanwhile
      return check_until_it_fails(c);
    }
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
        .synchronize(deadline_after(0.5));
  });
  for (const std::size_t waiting : {0U, 2U}) {
    EXPECT_THAT(outcome.errors[waiting], HasSubstr("rank 1, which did not come"));
  }
  EXPECT_THAT(outcome.errors[1], HasSubstr("aborted by rank"));
}

// Breaks the link of rank 1 for a while from its second call on.
class LinkCut : public CallWatch {
 public:
  explicit LinkCut(double length_s) : length_s_(length_s) {}
  void begun(const Operation&) override {
    if (++calls_ == 2) broken_until_s_ = steady_s() + length_s_;
  }
  void done(const Operation&) override {}
  bool breaks_link() const override { return true; }
  bool link_is_broken() override { return steady_s() < broken_until_s_; }

 private:
  const double length_s_;
  int calls_ = 0;
  std::atomic<double> broken_until_s_ = 0;
};

Outcome run_with_cut(double length_s, double timeout_s, const RankFunction& function) {
  return run_processes(3, [&](Store& store, int rank) {
    LinkCut cut(length_s);
    EngineOptions options = gloo_options();
    options.timeout_s = timeout_s;
    if (rank == 1) options.watch = &cut;
    const auto communicator = make_gloo(store, rank, 3, options);
    function(*communicator);
  });
}

void reduce_and_talk(Communicator& c) {
  std::vector<float> data(50'000, 1);
  c.barrier().synchronize();
  c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kNow).synchronize();
  check(data.back() == 3, "the sum is wrong");
  float letter = static_cast<float>(c.rank());
  if (c.rank() == 1) c.send({&letter, 1}, 2, kNow).synchronize();
  if (c.rank() == 2) c.recv({&letter, 1}, 1, kNow).synchronize();
  check(c.rank() == 0 || letter == 1, "the message is wrong");
  c.broadcast({data.data(), data.size()}, 1).synchronize();
}

TEST(GlooLinkCut, ThatHealsBeforeTheDeadlineOnlyDelays) {
  const double begin_s = steady_s();
  run_with_cut(0.4, 60, reduce_and_talk).expect_success();
  EXPECT_GE(steady_s() - begin_s, 0.4);
}

// Each has the same deadline. Whose passes first closes its connections, which the others see.
TEST(GlooLinkCut, ThatDoesNotHealEndsAllRanksAtTheirDeadline) {
  const Outcome outcome = run_with_cut(1e6, 2, reduce_and_talk);
  int passed = 0;
  for (const std::string& error : outcome.errors) {
    EXPECT_THAT(error, AllOf(HasSubstr("all_reduce of 200000 bytes"), HasSubstr("rank")));
    passed += error.find("deadline passed") != std::string::npos;
  }
  EXPECT_GE(passed, 1);
}

}  // namespace
}  // namespace ddpbench::comm::testing
