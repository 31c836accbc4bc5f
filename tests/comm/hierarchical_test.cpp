// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Hierarchical all-reduces of processes that pretend to be on several hosts, with Gloo between
// them: the checks of all engines, and what ranks see when one is killed or does not come.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/store/store.h"
#include "tests/comm/conformance.h"
#include "tests/comm/engine_checks.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// The host of each rank, a letter.
Outcome run_on_hosts(std::string_view hosts, const RankFunction& function,
                     CallWatch* watch = nullptr) {
  return run_processes(static_cast<int>(hosts.size()), [&](Store& store, int rank) {
    WorldOptions options;
    options.timeout_s = 60;
    options.watch = watch;
    const std::string host(1, hosts[static_cast<std::size_t>(rank)]);
    const auto communicator = make_hierarchical(engine_module(), store, rank,
                                                static_cast<int>(hosts.size()), host, options);
    function(*communicator);
  });
}

class RanksOnHosts : public ::testing::TestWithParam<const char*> {};

TEST_P(RanksOnHosts, PassAllChecksOfEngines) {
  run_on_hosts(GetParam(), [](Communicator& c) {
    check(c.backend() == "shm+gloo", "another backend");
    for (const EngineCheck& one : engine_checks()) {
      try {
        one.run(c);
      } catch (const std::exception& error) {
        throw std::runtime_error(fmt::format("{}: {}", one.name, error.what()));
      }
    }
  }).expect_success();
}

TEST_P(RanksOnHosts, ReduceLargeRegisteredMemoryInParts) {
  constexpr std::size_t kCount = 700'001;  // three parts, the last one odd
  run_on_hosts(GetParam(), [](Communicator& c) {
    const Buffer buffer = mappable_buffer(kCount * sizeof(float));
    c.register_buffer(buffer);
    const std::span<float> data(reinterpret_cast<float*>(buffer.view().data), kCount);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::maximum}) {
      for (std::size_t i = 0; i < kCount; ++i) {
        data[i] = static_cast<float>(i % 1000) + static_cast<float>(c.rank());
      }
      c.all_reduce({data.data(), kCount}, op).synchronize();
      const auto n = static_cast<float>(c.size());
      for (std::size_t i = 0; i < kCount; ++i) {
        const float each = static_cast<float>(i % 1000), ranks = n * (n - 1) / 2;
        const float wanted = op == ReduceOp::sum       ? n * each + ranks
                             : op == ReduceOp::average ? (n * each + ranks) / n
                                                       : each + n - 1;
        check(data[i] == wanted, fmt::format("element {}: {}, not {}", i, data[i], wanted));
      }
    }
    c.deregister_buffer(buffer);
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(Hosts, RanksOnHosts,
                         ::testing::Values("aa", "ab", "aab", "abab", "abca", "aaabbb", "abcde"),
                         [](const auto& tested) { return std::string(tested.param); });

class KindsHeard : public CallWatch {
 public:
  void begun(const Operation& operation) override {
    begun_ += std::string(to_string(operation.kind)) + " ";
  }
  void done(const Operation& operation) override {
    done_ += std::string(to_string(operation.kind)) + " ";
  }
  std::string begun_, done_;
};

// Once each, not also the parts that its all-reduces consist of.
TEST(Hierarchical, TellsTheWatchItsCallsOfBothQueues) {
  KindsHeard watch;
  run_on_hosts(
      "aab",
      [&](Communicator& c) {
        watch.begun_ = watch.done_ = "";  // without what set it up
        std::vector<float> data(500'000);
        c.broadcast({data.data(), data.size()}, 0).synchronize();
        c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
        if (c.rank() == 0) c.send({data.data(), 5}, 2, kDeferred).synchronize();
        if (c.rank() == 2) c.recv({data.data(), 5}, 0, kDeferred).synchronize();
        const std::string wanted = std::string("broadcast all_reduce ") + (c.rank() == 0   ? "send "
                                                                           : c.rank() == 2 ? "recv "
                                                                                           : "");
        check(watch.begun_ == wanted && watch.done_ == wanted,
              fmt::format("{}began, {}done", watch.begun_, watch.done_));
      },
      &watch)
      .expect_success();
}

TEST(Hierarchical, AKilledRankEndsThoseOfAllHosts) {
  for (const int killed : {0, 1}) {
    const Outcome outcome = run_on_hosts("aabb", [killed](Communicator& c) {
      std::vector<float> data(500'000);
      c.barrier().synchronize();
      if (c.rank() == killed) {
        sleep_s(0.02);
        ::kill(::getpid(), SIGKILL);
      }
      c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
    });
    EXPECT_EQ(outcome.errors[static_cast<std::size_t>(killed)], "signal 9");
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == killed) continue;
      EXPECT_THAT(outcome.errors[static_cast<std::size_t>(rank)],
                  AnyOf(HasSubstr("has died"), HasSubstr("aborted"), HasSubstr("all_reduce")))
          << rank;
    }
  }
}

TEST(Hierarchical, ARankThatDoesNotComeEndsThoseOfAllHosts) {
  const Outcome outcome = run_on_hosts("aabb", [](Communicator& c) {
    std::vector<float> data(500'000);
    if (c.rank() == 3) return sleep_s(2);
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum, kDeferred)
        .synchronize(deadline_after(0.5));
  });
  for (const std::size_t rank : {0U, 1U, 2U}) EXPECT_NE(outcome.errors[rank], "") << rank;
}

}  // namespace
}  // namespace ddpbench::comm::testing
