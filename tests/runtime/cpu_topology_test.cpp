// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The host's processors, and the cores of each device.
#include "kernels/runtime/cpu_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/error.h"

namespace ddpbench {
namespace {

using testing::ElementsAre;

CpuTopology host_with_cores(std::vector<int> cores) {
  CpuTopology topology;
  topology.cores = std::move(cores);
  return topology;
}

TEST(CpuTopology, ListsOneProcessorPerCoreOfThoseThatMayBeUsed) {
  const CpuTopology topology = read_cpu_topology();
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(topology.processors, CPU_COUNT(&allowed));
  ASSERT_FALSE(topology.cores.empty());
  EXPECT_LE(topology.cores.size(), static_cast<std::size_t>(topology.processors));
  for (const int core : topology.cores) EXPECT_TRUE(CPU_ISSET(core, &allowed)) << core;
  const std::set<int> distinct(topology.cores.begin(), topology.cores.end());
  EXPECT_EQ(distinct.size(), topology.cores.size());
}

TEST(CpuTopology, ShowsOnlyTheProcessorThatTheCallerIsConfinedTo) {
  const int last = read_cpu_topology().cores.back();
  CpuTopology confined;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    confined = read_cpu_topology();
  }).join();
  EXPECT_THAT(confined.cores, ElementsAre(last));
  EXPECT_EQ(confined.processors, 1);
}

TEST(Unpinned, LetsThreadsRunWhereThisProcessMayThoughTheirMakerIsPinned) {
  const auto processors = [](pid_t process) {
    cpu_set_t set;
    ::sched_getaffinity(process, sizeof set, &set);
    return CPU_COUNT(&set);
  };
  int unpinned = 0, pinned = 0;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(read_cpu_topology().cores.back()), &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    {
      const Unpinned meanwhile;
      std::thread([&] { unpinned = processors(0); }).join();
    }
    std::thread([&] { pinned = processors(0); }).join();
  }).join();
  EXPECT_EQ(unpinned, processors(::getppid()));
  EXPECT_EQ(pinned, 1);
}

TEST(CpuTopology, DescribesTheHost) {
  const CpuTopology topology = read_cpu_topology();
  EXPECT_FALSE(topology.model.empty());
  EXPECT_GT(topology.memory_bytes, std::size_t{1} << 20);
}

#if defined(__x86_64__)
TEST(CpuTopology, ListsExactlyTheExtensionsThatTheCompilersDispatchSees) {
  const std::vector<std::string> features = read_cpu_topology().features;
  const auto has = [&](const char* name) {
    return std::ranges::find(features, name) != features.end();
  };
  EXPECT_EQ(has("avx2"), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(has("fma"), __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(has("avx512f"), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(has("avx512_bf16"), __builtin_cpu_supports("avx512bf16") != 0);
}
#endif

TEST(CpuPlacement, GivesEachDeviceNeighbouringCoresOfItsOwn) {
  const CpuPlacement placement = place_cpu_devices(host_with_cores({0, 2, 4, 6, 1}), 2, 2);
  EXPECT_THAT(placement.device_cores, ElementsAre(ElementsAre(0, 2), ElementsAre(4, 6)));
  EXPECT_FALSE(placement.oversubscribed);
}

TEST(CpuPlacement, UsesAllCoresWithoutCallingThatOversubscribed) {
  EXPECT_FALSE(place_cpu_devices(host_with_cores({0, 1}), 2, 1).oversubscribed);
  EXPECT_FALSE(place_cpu_devices(host_with_cores({0, 1}), 1, 2).oversubscribed);
}

TEST(CpuPlacement, GoesRoundAndSaysSoWithMoreThreadsThanCores) {
  const CpuPlacement placement = place_cpu_devices(host_with_cores({3, 5}), 3, 1);
  EXPECT_THAT(placement.device_cores, ElementsAre(ElementsAre(3), ElementsAre(5), ElementsAre(3)));
  EXPECT_TRUE(placement.oversubscribed);
}

TEST(CpuPlacement, GoesRoundWithinOneDeviceToo) {
  const CpuPlacement placement = place_cpu_devices(host_with_cores({3, 5, 7}), 2, 2);
  EXPECT_THAT(placement.device_cores, ElementsAre(ElementsAre(3, 5), ElementsAre(7, 3)));
  EXPECT_TRUE(placement.oversubscribed);
}

TEST(CpuPlacement, RefusesWhatCannotBePlaced) {
  EXPECT_THROW(place_cpu_devices(host_with_cores({0}), 0, 1), InternalError);
  EXPECT_THROW(place_cpu_devices(host_with_cores({0}), 1, 0), InternalError);
  EXPECT_THROW(place_cpu_devices(host_with_cores({}), 1, 1), InternalError);
}

}  // namespace
}  // namespace ddpbench
