// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

TEST(MachineSnapshot, ReadsWhatTheSystemTells) {
  const TemporaryDirectory root;
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  root.write("proc/stat", "cpu  100 20 30 400 50 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  root.write("proc/vmstat", "nr_free_pages 5\npswpin 42\npswpout 43\n");
  root.write("sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n");
  root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
  root.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n");
  root.write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4\n");
  root.write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "5\n");
  root.write("sys/devices/system/cpu/cpufreq/scaling_cur_freq", "9\n");
  const auto snapshot = read_machine_counters(root.path());
  EXPECT_DOUBLE_EQ(snapshot.busy_s.value(), 163 * tick);
  EXPECT_DOUBLE_EQ(snapshot.stolen_s.value(), 8 * tick);
  EXPECT_DOUBLE_EQ(snapshot.all_s.value(), 621 * tick);
  EXPECT_EQ(snapshot.swapped_in_pages, 42u);
  EXPECT_EQ(snapshot.quota_throttled_s, 2.5);
  EXPECT_EQ(snapshot.cpu_frequency_mhz, 2500);
  EXPECT_EQ(snapshot.thermal_throttles, 9u);
}

TEST(MachineSnapshot, HasTheThrottlingOfTheOwnGroupOfEitherVersion) {
  const TemporaryDirectory root;
  root.write("proc/self/cgroup", "2:cpu,cpuacct:/jobs/7\n0::/jobs/7\n");
  root.write("sys/fs/cgroup/cpu.stat", "usage_usec 5\n");
  root.write("sys/fs/cgroup/jobs/7/cpu.stat", "nr_throttled 3\nthrottled_usec 1500000\n");
  EXPECT_EQ(read_machine_counters(root.path()).quota_throttled_s, 1.5);
  root.write("sys/fs/cgroup/cpu/jobs/7/cpu.stat", "nr_throttled 3\nthrottled_time 2500000000\n");
  EXPECT_EQ(read_machine_counters(root.path()).quota_throttled_s, 2.5);
}

TEST(MachineSnapshot, LeavesOutWhatItDoesNotTell) {
  const TemporaryDirectory root;
  root.write("proc/stat", "intr 5\n");
  const auto snapshot = read_machine_counters(root.path());
  EXPECT_FALSE(snapshot.busy_s);
  EXPECT_FALSE(snapshot.cpu_frequency_mhz);
  EXPECT_FALSE(snapshot.thermal_throttles);
  EXPECT_FALSE(snapshot.swapped_in_pages);
}

TEST(MachineSnapshot, OfThisMachineHasThisProcess) {
  const auto snapshot = take_machine_snapshot();
  EXPECT_TRUE(snapshot.wall_s);
  EXPECT_TRUE(snapshot.own_busy_s);
}

}  // namespace
}  // namespace ddpbench::bench
