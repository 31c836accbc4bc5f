// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How long calls last over an emulated link, at least; that their results are the same; that ranks
// sleep meanwhile, and what wakes them. Between processes over shared memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "tests/comm/conformance.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMiB = 1 << 20;
constexpr double kRate = 12.5e6, kLatency_s = 1e-3;  // 100Mbit,1ms

WorldOptions over_link(AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic) {
  WorldOptions options = test_options();
  options.link = {kRate, kLatency_s};
  options.all_reduce = all_reduce;
  return options;
}

// A MiB to all, or what is left of it.
struct Data {
  std::vector<float> values = std::vector<float>(kMiB / sizeof(float), 1);
  Elements first(std::size_t parts = 1) { return {values.data(), values.size() / parts}; }
};

// Fails when the call lasts less than the formula says.
template <typename Call>
void check_lasts(double least_s, Call&& call) {
  const double begin_s = steady_s();
  call();
  const double lasted_s = steady_s() - begin_s;
  check(lasted_s >= least_s, fmt::format("{} s, at least {} s were to pass", lasted_s, least_s));
}

double cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string error_of(const Work& work, Deadline deadline) {
  try {
    work.synchronize(deadline);
    return "no error";
  } catch (const CommError& error) {
    return error.what();
  }
}

TEST(EmulatedLink, MakesAnAllReduceLastAsItsAlgorithmWould) {
  for (const auto algorithm : {AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
    for (const int n : {2, 3}) {
      run_ranks(
          RankKind::processes, n,
          [&](Communicator& c) {
            Data data;
            const double rounds = algorithm == AllReduceAlgorithm::ring ? 2 * (n - 1) : 2;
            check_lasts(rounds * kLatency_s + 2.0 * (n - 1) / n * kMiB / kRate,
                        [&] { c.all_reduce(data.first(), ReduceOp::sum).synchronize(); });
            check(data.values == std::vector<float>(data.values.size(), static_cast<float>(n)),
                  "the sums are wrong");
          },
          over_link(algorithm))
          .expect_success();
    }
  }
}

TEST(EmulatedLink, MakesOtherCollectivesLastAsTheirBusiestLink) {
  run_ranks(
      RankKind::processes, 3,
      [](Communicator& c) {
        Data data, whole;
        const Elements all = whole.first(), third{data.values.data(), all.count / 3};
        const Elements in{all.data, 3 * third.count};
        const double parts_s = kLatency_s + 2 * static_cast<double>(third.bytes()) / kRate;
        check_lasts(kLatency_s, [&] { c.barrier().synchronize(); });
        check_lasts(parts_s, [&] { c.all_gather(third, in).synchronize(); });
        check_lasts(parts_s, [&] { c.reduce_scatter(in, third, ReduceOp::sum).synchronize(); });
        check_lasts(parts_s, [&] { c.gather(third, in, 0).synchronize(); });
        check_lasts(parts_s, [&] { c.scatter(in, third, 0).synchronize(); });
        check_lasts(kLatency_s + 2.0 * kMiB / kRate,
                    [&] { c.broadcast(data.first(), 0).synchronize(); });
        check_lasts(2 * kLatency_s + 4.0 / 3 * kMiB / kRate,
                    [&] { c.reduce(data.first(), ReduceOp::sum, 0).synchronize(); });
      },
      over_link())
      .expect_success();
}

TEST(EmulatedLink, CarriesTheCallsOfARankOneAfterTheOther) {
  run_ranks(
      RankKind::processes, 2,
      [](Communicator& c) {
        Data first, second;
        check_lasts(2 * (2 * kLatency_s + kMiB / kRate), [&] {
          const Work one = c.all_reduce(first.first(), ReduceOp::sum, kNow);
          c.all_reduce(second.first(), ReduceOp::sum, kNow).synchronize();
          one.synchronize();
        });
      },
      over_link())
      .expect_success();
}

// Two workers push to one server: their links are idle half of the time, its link is not.
TEST(EmulatedLink, OfAServerCarriesAllWorkersMessages) {
  run_ranks(
      RankKind::processes, 3,
      [](Communicator& c) {
        Data one, other;
        const double alone_s = kLatency_s + kMiB / kRate;
        if (c.rank() != 0) {
          return check_lasts(alone_s, [&] { c.send(one.first(), 0, kDeferred).synchronize(); });
        }
        check_lasts(alone_s + kMiB / kRate, [&] {
          c.group_start();
          const Work from_1 = c.recv(one.first(), 1, kDeferred);
          const Work from_2 = c.recv(other.first(), 2, kDeferred);
          c.group_end();
          from_1.synchronize();
          from_2.synchronize();
        });
      },
      over_link())
      .expect_success();
}

TEST(EmulatedLink, ChangesNoResults) {
  WorldOptions options = test_options();
  options.link = {1e10, 1e-6};
  run_ranks(
      RankKind::processes, 3, [](Communicator& c) { check_all_reduce_for_every_count(c, false); },
      options)
      .expect_success();
}

// What computes beside a call has the core: who waits for the link takes no processor time.
TEST(EmulatedLink, LetsItsRanksSleep) {
  run_ranks(
      RankKind::processes, 2,
      [](Communicator& c) {
        Data data;
        const int peer = 1 - c.rank();
        for (const CallOptions& start : {kNow, kDeferred}) {
          for (const bool message : {false, true}) {
            const double begin_s = steady_s(), used_s = cpu_s();
            if (!message) {
              c.all_reduce(data.first(), ReduceOp::sum, start).synchronize();
            } else if (c.rank() == 0) {
              c.send(data.first(), peer, start).synchronize();
            } else {
              c.recv(data.first(), peer, start).synchronize();
            }
            check(cpu_s() - used_s < 0.5 * (steady_s() - begin_s), "the core was busy");
          }
        }
      },
      over_link())
      .expect_success();
}

TEST(EmulatedLink, DoesNotHoldUpAnAbortOrADeadline) {
  for (const bool aborts : {true, false}) {
    WorldOptions options = test_options();
    options.link = {100, 0};  // three hours
    run_ranks(
        RankKind::processes, 2,
        [aborts](Communicator& c) {
          Data data;
          const double begin_s = steady_s();
          const Work work = c.all_reduce(data.first(), ReduceOp::sum, kNow);
          std::thread aborting([&] {
            sleep_s(0.2);
            if (aborts && c.rank() == 1) c.abort("enough");
          });
          const std::string error = error_of(work, deadline_after(aborts ? 100 : 0.4));
          aborting.join();
          const double lasted_s = steady_s() - begin_s;
          check(lasted_s < 50, fmt::format("{} s passed", lasted_s));
          const char* const words = aborts ? "enough" : "deadline passed";
          check(error.find(words) != std::string::npos, error);
        },
        options)
        .expect_success();
  }
}

TEST(EmulatedLink, IsNamedByADeadlineThatPassesInIt) {
  WorldOptions options = test_options();
  options.link = {100, 0};
  run_ranks(
      RankKind::threads, 2,
      [](Communicator& c) {
        Data data;
        const std::string error =
            error_of(c.all_reduce(data.first(), ReduceOp::sum, kDeferred), deadline_after(0.3));
        // The second may see the first one's abort before its own deadline.
        check(error.find("while waiting for the emulated link") != std::string::npos, error);
      },
      options)
      .expect_success();
}

// The receiver waits for what its link carries, and so does the sender: nobody else is late. Where
// nothing was sent, the sender is.
TEST(EmulatedLink, IsNamedByBothEndsOfAMessageThatIsInIt) {
  WorldOptions options = test_options();
  options.link = {100, 0};
  for (const bool sends : {true, false}) {
    std::barrier both(2);  // who leaves is named, too
    run_ranks(
        RankKind::threads, 2,
        [&](Communicator& c) {
          Data data;
          std::string error;
          if (c.rank() == 1) {
            error = error_of(c.recv(data.first(), 0, kDeferred), deadline_after(0.5));
          } else if (sends) {
            error = error_of(c.send(data.first(), 1, kDeferred), deadline_after(0.5));
          }
          both.arrive_and_wait();
          const char* const late = sends ? "waiting for the emulated link" : "waiting for rank 0";
          check((!sends && c.rank() == 0) || error.find(late) != std::string::npos, error);
        },
        options)
        .expect_success();
  }
}

// A command of a server and the gradient behind it are one message of a network.
TEST(EmulatedLink, TakesOneLatencyForACommandAndItsData) {
  constexpr double kLong_s = 0.2;
  WorldOptions options = test_options();
  options.link = {1e9, kLong_s};
  run_ranks(
      RankKind::processes, 2,
      [](Communicator& c) {
        Data data;
        std::int64_t command = 1;
        const Elements word{&command, 1, DataType::int64}, shard = data.first();
        const double begin_s = steady_s();
        const auto take = [&](const Elements& one) {
          (c.rank() == 0 ? c.send(one, 1, kDeferred) : c.recv(one, 0, kDeferred)).synchronize();
        };
        take(word);
        take(shard);
        const double lasted_s = steady_s() - begin_s;
        check(lasted_s >= kLong_s && lasted_s < 1.9 * kLong_s, fmt::format("{} s", lasted_s));
      },
      options)
      .expect_success();
}

TEST(Link, IsReadWithItsUnits) {
  const auto expect = [](const char* text, double bytes_per_s, double latency_s) {
    const Link link = parse_link(text);
    EXPECT_DOUBLE_EQ(link.bytes_per_s, bytes_per_s) << text;
    EXPECT_DOUBLE_EQ(link.latency_s, latency_s) << text;
  };
  expect("1Gbit,50us", 125e6, 50e-6);
  expect("2.5Gbit,0us", 312.5e6, 0);
  expect("100Mbit,1ms", 12.5e6, 1e-3);
  expect("64kbit,1s", 8e3, 1);
  expect("10MB,1.5ms", 10e6, 1.5e-3);
  expect("2kB,1us", 2e3, 1e-6);
  expect("3GB,1us", 3e9, 1e-6);
  expect("", 0, 0);
}

TEST(Link, IsRefusedWithWhatItTakes) {
  for (const char* text : {"1Gbit", "1Gbit,", ",50us", "1Gb,50us", "0Gbit,50us", "-1Gbit,50us",
                           "1Gbit,50", "1Gbit,-1us", "1.2.3Gbit,1us", "1Gbit,50us,", "fast,1us"}) {
    try {
      parse_link(text);
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("--emulate-link=") + text + ": no link; "));
    }
  }
}

}  // namespace
}  // namespace ddpbench::comm::testing
