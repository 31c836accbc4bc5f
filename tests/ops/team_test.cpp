// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether operations leave a device's team as it is: the same threads, each bound to its core.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/cpu_topology.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

constexpr int kThreads = 4;

struct Members {
  std::vector<long> ids = std::vector<long>(kThreads);  // of the threads
  std::vector<std::vector<int>> processors = std::vector<std::vector<int>>(kThreads);
};

Members team_members() {
  Members members;
#pragma omp parallel num_threads(kThreads)
  {
    const auto me = static_cast<std::size_t>(omp_get_thread_num());
    members.ids[me] = ::syscall(SYS_gettid);
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ::sched_getaffinity(0, sizeof mask, &mask);
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &mask)) members.processors[me].push_back(i);
  }
  return members;
}

// Calls body() on the leading thread of a device whose threads are bound to the first and the last
// core in turn, and compares its team before and after.
template <typename Body>
void expect_same_team(const Body& body) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not see the barriers of libgomp";
#endif
  std::thread([&] {
    const std::vector<int> cores = read_cpu_topology().cores;
    std::vector<int> bound;
    for (int i = 0; i < kThreads; ++i) bound.push_back(i % 2 == 0 ? cores.front() : cores.back());
    make_cpu_device({.threads = kThreads, .cores = bound})->bind_calling_thread();
    const Members before = team_members();
    for (std::size_t i = 0; i < kThreads; ++i)
      EXPECT_THAT(before.processors[i], ::testing::ElementsAre(bound[i]));
    body();
    const Members after = team_members();
    EXPECT_EQ(after.ids, before.ids);
    EXPECT_EQ(after.processors, before.processors);
  }).join();
}

TEST(ParallelShares, KeepTheThreadsThatHaveNoShare) {
  expect_same_team([] {
    std::array<std::atomic<int>, kThreads> calls{};
    cpu::parallel_shares(2, 100, 1, [&](int thread, std::int64_t begin, std::int64_t end) {
      ++calls[static_cast<std::size_t>(thread)];
      EXPECT_EQ(end - begin, 50);
    });
    EXPECT_EQ(calls[0], 1);
    EXPECT_EQ(calls[1], 1);
    EXPECT_EQ(calls[2] + calls[3], 0);
  });
}

// Two tiles for four threads.
TEST(OwnWinogradTeam, KeepsTheThreadsThatHaveNoTiles) {
  const cpu::SimdLevel level = cpu::simd_level();
  if (level == cpu::SimdLevel::portable) GTEST_SKIP() << "this processor has no AVX2";
  const std::int64_t block = level == cpu::SimdLevel::avx512 ? 16 : 8;
  const auto op = cpu::make_winograd_conv2d({level, kThreads}, std::size_t{1} << 20, DataType::fp32,
                                            conv({1, block, 4, 8}, block, 3, 1, 1));
  const Values x = random_values(32 * block, 1), weights = random_values(9 * block * block, 2),
               bias = random_values(block, 3);
  Values y(x.size()), dx(x.size()), dw(weights.size()), db(bias.size());
  expect_same_team([&] {
    run_as_laid_out(*op, x, {weights.data(), bias.data()}, y, dx, {dw.data(), db.data()});
  });
}

}  // namespace
}  // namespace ddpbench::ops::testing
