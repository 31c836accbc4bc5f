// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Works: their order, the threads that execute them, their times, and that they allocate nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/runtime/cpu_device.h"
#include "tests/base/allocation_count.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

class WorkTest : public ::testing::TestWithParam<RankKind> {
 protected:
  static void on_all_ranks(int size, const RankFunction& function,
                           const WorldOptions& options = test_options()) {
    run_ranks(GetParam(), size, function, options).expect_success();
  }
};

TEST_P(WorkTest, ManyInFlightKeepTheirOrderWhoeverExecutesThem) {
  on_all_ranks(3, [](Communicator& c) {
    for (int round = 0; round < 20; ++round) {
      // Each work sums the result of the one before, in the same memory.
      std::vector<float> data(1 + static_cast<std::size_t>(round) * 997, 1.0F);
      std::vector<Work> works;
      for (int i = 0; i < 8; ++i) {
        const bool now = (i + round) % 3 != 0;
        works.push_back(
            c.all_reduce({data.data(), data.size()}, ReduceOp::sum, now ? kNow : kDeferred));
      }
      works[static_cast<std::size_t>(c.rank() + round) % works.size()].synchronize();
      works.back().synchronize();
      check(data.front() == 6561.0F && data.back() == 6561.0F, "not 3^8");
    }
  });
}

TEST_P(WorkTest, DeferredRunsOnTheWaitingThreadAndNowWithoutAnyWaiting) {
  // The callback runs on the executing thread, in each rank's process or on each rank's threads.
  struct Seen {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    int count = 0;
  } seen;
  WorldOptions options = test_options();
  options.progress = [&seen] {
    const std::lock_guard lock(seen.mutex);
    seen.threads.insert(std::this_thread::get_id());
    ++seen.count;
  };
  on_all_ranks(
      1,
      [&seen](Communicator& c) {
        float value = 1;
        c.all_reduce({&value, 1}, ReduceOp::sum, kDeferred).synchronize();
        check(seen.threads == std::set{std::this_thread::get_id()}, "not on this thread");
        c.all_reduce({&value, 1}, ReduceOp::sum, kNow);
        while (true) {
          const std::lock_guard lock(seen.mutex);
          if (seen.count == 2) break;
        }
        check(seen.threads.size() == 2, "not on the communication thread");
      },
      options);
}

TEST_P(WorkTest, TimesTellWhenThePeersArrived) {
  on_all_ranks(2, [](Communicator& c) {
    const auto device = make_cpu_device({});
    const auto stream = device->make_stream();
    std::vector<float> data(20'000, 1.0F);
    c.barrier().synchronize();
    if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const double issued_s = device->now_s();
    const Work work = c.all_reduce({data.data(), data.size()}, ReduceOp::sum,
                                   {.after = stream.get(), .start = Start::deferred});
    work.wait(*stream);
    const WorkTimes times = work.times();
    check(issued_s <= times.start_s && times.start_s <= times.arrived_s &&
              times.arrived_s <= times.end_s && times.end_s <= device->now_s(),
          fmt::format("{} {} {} {}", issued_s, times.start_s, times.arrived_s, times.end_s));
    std::vector<double> begun(2);
    double own = times.start_s;
    c.all_gather({&own, 1, DataType::fp64}, {begun.data(), 2, DataType::fp64}).synchronize();
    check(times.arrived_s >= std::max(begun[0], begun[1]),
          "the peers arrived before the last one entered");
  });
}

TEST_P(WorkTest, CallsAllocateNothingAfterWarmUp) {
  on_all_ranks(2, [](Communicator& c) {
    std::vector<float> data(50'000, 1.0F), part(25'000);
    float message = 1;
    std::vector<Work> works(6);
    const auto step = [&] {
      works[0] = c.all_reduce({data.data(), data.size()}, ReduceOp::maximum, kNow);
      works[1] = c.all_reduce({data.data(), 10}, ReduceOp::maximum, kDeferred);
      works[2] = c.broadcast({data.data(), data.size()}, 0, kNow);
      works[3] = c.reduce_scatter({data.data(), data.size()}, {part.data(), part.size()},
                                  ReduceOp::maximum, kDeferred);
      works[4] = c.rank() == 0 ? c.send({&message, 1}, 1, kNow) : c.recv({&message, 1}, 0, kNow);
      works[5] = c.barrier(kDeferred);
      for (const Work& work : works) work.synchronize();
    };
    for (int i = 0; i < 20; ++i) step();
    c.barrier().synchronize();
    // Among threads, rank 0 counts for all.
    const bool counts = c.rank() == 0 || GetParam() == RankKind::processes;
    const std::int64_t before = ddpbench::test::allocation_count();
    c.barrier().synchronize();
    for (int i = 0; i < 20; ++i) step();
    c.barrier().synchronize();
    const std::int64_t counted = counts ? ddpbench::test::allocation_count() - before : 0;
    c.barrier().synchronize();
    check(counted == 0, fmt::format("{} allocations", counted));
  });
}

TEST_P(WorkTest, OutlivesItsCommunicator) {
  Work finished, abandoned;
  {
    auto ranks = make_thread_shm(2, test_options());
    float value = 0;
    finished = ranks[0]->broadcast({&value, 1}, 0);
    finished.synchronize();
    abandoned = ranks[0]->barrier(kNow);
  }
  EXPECT_NO_THROW(finished.synchronize());
  EXPECT_THROW(abandoned.synchronize(), CommError);
}

TEST_P(WorkTest, OfAnOpenGroupCannotBeAwaited) {
  auto ranks = make_thread_shm(1, test_options());
  ranks[0]->group_start();
  const Work work = ranks[0]->barrier(kDeferred);
  EXPECT_THROW(work.synchronize(), InternalError);
  ranks[0]->group_end();
  work.synchronize();
}

INSTANTIATE_TEST_SUITE_P(Ranks, WorkTest, ::testing::Values(RankKind::threads, RankKind::processes),
                         [](const auto& tested) {
                           return tested.param == RankKind::threads ? "Threads" : "Processes";
                         });

}  // namespace
}  // namespace ddpbench::comm::testing
