// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The record of the machine, the places of the program's files, and `ddpbench info`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "bench/commands/subcommand.h"
#include "bench/host/build_info.h"
#include "bench/host/host_limits.h"
#include "bench/options/option_table.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST(EnvironmentCapture, RecordsVariablesThatChangeWhatIsMeasuredAndNoOthers) {
  const Variables recorded = recorded_variables({{"OMP_NUM_THREADS", "1"},
                                                 {"NCCL_DEBUG", "INFO"},
                                                 {"CUDA_VISIBLE_DEVICES", "0"},
                                                 {"GLIBC_TUNABLES", "x"},
                                                 {"DDPBENCH_BATCH_SIZE", "8"},
                                                 {"DDPBENCH_PRESET", "cpu-release"},
                                                 {"DDPBENCH_JOB_SECRET", "s"},
                                                 {"DDPBENCH_RUN_FD", "3"},
                                                 {"OMPI_MCA_btl_tcp_eager_limit", "2097152"},
                                                 {"OMPI_MCA_orte_hnp_uri", "of this job"},
                                                 {"AWS_SECRET_ACCESS_KEY", "s"},
                                                 {"HOME", "/h"}},
                                                option_variables());
  EXPECT_THAT(recorded,
              ElementsAre(Key("CUDA_VISIBLE_DEVICES"), Key("DDPBENCH_BATCH_SIZE"),
                          Key("DDPBENCH_PRESET"), Key("GLIBC_TUNABLES"), Key("NCCL_DEBUG"),
                          Key("OMPI_MCA_btl_tcp_eager_limit"), Key("OMP_NUM_THREADS")));
}

TEST(EnvironmentCapture, DescribesThisHostWithTheLibrariesHandedIn) {
  const report::Environment environment =
      capture_environment({{"OMP_NUM_THREADS", "1"}}, {{"oneDNN", "2.6.3"}});
  ASSERT_EQ(environment.hosts.size(), 1U);
  EXPECT_THAT(environment.hosts[0], Not(IsEmpty()));
  EXPECT_THAT(environment.kernel, HasSubstr("Linux"));
  EXPECT_THAT(environment.operating_system, Not(IsEmpty()));
  EXPECT_THAT(environment.tcp_congestion_control, Not(IsEmpty()));
  EXPECT_GE(environment.cpu.cores, 1);
  EXPECT_GT(environment.cpu.memory_bytes, 0U);
  EXPECT_THAT(environment.libraries, Contains(Pair("oneDNN", "2.6.3")));
  for (const char* name :
       {"fmt", "nlohmann_json", "zlib", "OpenSSL", "libcurl", "hwloc", "glibc", "compiler"})
    EXPECT_THAT(environment.libraries, Contains(Pair(name, ::testing::ContainsRegex("[0-9]"))));
  EXPECT_THAT(environment.variables, ElementsAre(Pair("OMP_NUM_THREADS", "1")));
}

TEST(InstallPaths, AnInstalledProgramUsesItsOwnFiles) {
  const TemporaryDirectory folder;
  folder.write("share/ddpbench/configs/x.json", "{}");
  const std::string executable = folder.write("bin/ddpbench", "");
  std::filesystem::create_symlink(executable, folder.path() + "/link");
  const InstallPaths paths = find_install_paths(folder.path() + "/link", DDPBENCH_TEST_SOURCE_DIR);
  EXPECT_EQ(paths.root, std::filesystem::canonical(folder.path()).string() + "/share/ddpbench");
  EXPECT_EQ(paths.origin, "installed");
  EXPECT_THAT(paths.config_directories(), ElementsAre(paths.root + "/configs"));
}

TEST(InstallPaths, AProgramThatIsNotInstalledUsesTheSourceTree) {
  const TemporaryDirectory folder;
  const InstallPaths paths =
      find_install_paths(folder.write("bin/ddpbench", ""), DDPBENCH_TEST_SOURCE_DIR);
  EXPECT_EQ(paths.root, DDPBENCH_TEST_SOURCE_DIR);
  EXPECT_EQ(paths.origin, "source tree");
  EXPECT_TRUE(std::filesystem::exists(paths.models() + "/simple_cnn.json"));
}

TEST(InstallPaths, WithoutEitherEveryPlaceIsNamed) {
  const TemporaryDirectory folder;
  const InstallPaths paths =
      find_install_paths(folder.write("bin/ddpbench", ""), folder.path() + "/gone");
  EXPECT_THAT(paths.root, IsEmpty());
  EXPECT_THAT(paths.config_directories(), Contains(folder.path() + "/gone/configs"));
  EXPECT_THAT(paths.config_directories(), Contains(HasSubstr("/share/ddpbench/configs")));
}

TEST(HostLimits, TheTightestControlGroupCounts) {
  const TemporaryDirectory groups;
  // /proc may name the root itself as this process's own group below the root. The limit of the
  // root is then the only one.
  groups.write("proc/self/cgroup", "0::/\n");
  groups.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  groups.write("sys/fs/cgroup/memory.max", "1073741824\n");
  const HostLimits limits = read_host_limits(groups.path());
  EXPECT_EQ(limits.cpu_quota, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1073741824U);
  EXPECT_EQ(limits.memory_group, "/");
}

TEST(HostLimits, TheQuotaOfVersion1CountsAsWell) {
  const TemporaryDirectory groups;
  groups.write("proc/self/cgroup", "4:cpu,cpuacct:/jobs/7\n3:cpuset:/other\n0::/\n");
  groups.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  groups.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_host_limits(groups.path()).cpu_quota, std::nullopt);
  groups.write("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_quota_us", "50000\n");
  groups.write("sys/fs/cgroup/cpu/jobs/7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_host_limits(groups.path()).cpu_quota, 0.5);
}

TEST(UsableCpu, HasAsManyCoresAsTheQuotaAllows) {
  const TemporaryDirectory groups;
  const std::size_t all = read_cpu_topology().cores.size();
  groups.write("proc/self/cgroup", "0::/jobs\n");
  EXPECT_EQ(read_usable_cpu(groups.path()).cores.size(), all);
  for (const auto& [quota, cores] : {std::pair("50000", std::size_t{1}),
                                     {"190000", std::size_t{1}},
                                     {"max", all},
                                     {"990000000", all}}) {
    groups.write("sys/fs/cgroup/jobs/cpu.max", std::string(quota) + " 100000\n");
    EXPECT_EQ(read_usable_cpu(groups.path()).cores.size(), cores) << quota;
  }
}

TEST(HostLimits, TheMemoryThatIsSharedHasTheNameOfWhatLimitsIt) {
  const MemoryLimit host = memory_limit({});
  const MemoryLimit group = memory_limit({.memory_bytes = 4096, .memory_group = "/jobs/7"});
  EXPECT_GT(host.bytes, 4096U);
  EXPECT_THAT(host.pool, Not(IsEmpty()));
  EXPECT_EQ(group.bytes, 4096U);
  EXPECT_THAT(group.pool,
              testing::AllOf(testing::StartsWith(host.pool + " "), testing::EndsWith(" /jobs/7")));
}

// A job of 1000 bytes, of which 400 are used and can not be dropped, in a group of 2000 with 1900.
void write_groups_of_version_2(const TemporaryDirectory& root) {
  root.write("proc/self/cgroup", "1:name=systemd:/x\n0::/jobs/7\n");
  root.write("sys/fs/cgroup/jobs/7/memory.max", "1000\n");
  root.write("sys/fs/cgroup/jobs/7/memory.current", "700\n");
  root.write("sys/fs/cgroup/jobs/7/memory.stat", "anon 390\ninactive_file 300\n");
  root.write("sys/fs/cgroup/jobs/memory.max", "2000\n");
  root.write("sys/fs/cgroup/jobs/memory.current", "1900\n");
  root.write("proc/meminfo", "MemTotal:       2 kB\nMemAvailable:   1 kB\n");
}

TEST(HostLimits, LeaveWhatTheTightestGroupDoesNotUseYet) {
  const TemporaryDirectory root;
  write_groups_of_version_2(root);
  HostLimits limits = read_host_limits(root.path());
  EXPECT_EQ(limits.memory_bytes, 1000U);
  EXPECT_EQ(limits.memory_group, "/jobs/7");
  EXPECT_EQ(limits.memory_left_bytes, 100U);  // of /jobs
  EXPECT_EQ(limits.host_available_bytes, 1024U);
  EXPECT_EQ(memory_limit(limits).bytes, 100U);
  root.write("sys/fs/cgroup/jobs/memory.current", "100\n");
  limits = read_host_limits(root.path());
  EXPECT_EQ(limits.memory_left_bytes, 600U);  // of /jobs/7
  limits.host_available_bytes = 50;           // others have taken the rest of the machine
  EXPECT_EQ(memory_limit(limits).bytes, 50U);
  EXPECT_THAT(memory_limit(limits).pool, testing::EndsWith(" /jobs/7"));
}

TEST(MemoryKills, AreToldWithTheLimitThatWasReached) {
  const TemporaryDirectory root;
  write_groups_of_version_2(root);
  root.write("sys/fs/cgroup/jobs/7/memory.events", "max 3\noom 1\noom_kill 0\n");
  const MemoryKills before = read_memory_kills(root.path());
  EXPECT_EQ(memory_kill_words(before, before, root.path()), "");
  root.write("sys/fs/cgroup/jobs/7/memory.events", "max 3\noom 1\noom_kill 1\n");
  EXPECT_THAT(memory_kill_words(before, read_memory_kills(root.path()), root.path()),
              testing::AllOf(HasSubstr("the kernel ended it because memory ran out"),
                             HasSubstr("/jobs/7 may use 1000 bytes"), HasSubstr("--batch-size")));
}

TEST(MemoryKills, OfTheMachineCountWhereTheGroupDoesNotTell) {
  const TemporaryDirectory root;
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.events", "max 3\n");
  root.write("proc/vmstat", "pswpin 4\noom_kill 8\n");
  const MemoryKills before = read_memory_kills(root.path());
  root.write("proc/vmstat", "pswpin 4\noom_kill 9\n");
  const MemoryKills after = read_memory_kills(root.path());
  EXPECT_THAT(memory_kill_words(before, after, root.path()), HasSubstr("probably this one"));
  // Where the group tells that it was none of its own, another was meant.
  root.write("sys/fs/cgroup/job/memory.events", "max 3\noom_kill 2\n");
  const MemoryKills own = read_memory_kills(root.path());
  root.write("proc/vmstat", "pswpin 4\noom_kill 10\n");
  EXPECT_EQ(memory_kill_words(own, read_memory_kills(root.path()), root.path()), "");
}

TEST(HostLimits, AreMissingWhereThereAreNone) {
  const TemporaryDirectory groups;
  groups.write("proc/self/cgroup", "0::/\n");
  groups.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  groups.write("sys/fs/cgroup/memory.max", "max\n");
  const HostLimits limits = read_host_limits(groups.path());
  EXPECT_EQ(limits.cpu_quota, std::nullopt);
  EXPECT_EQ(limits.memory_bytes, std::nullopt);
  EXPECT_GT(limits.threads.value_or(0), 0U);
}

struct InfoOf {
  report::Environment environment = {.hosts = {"there"}};
  HostDevices host = {};
  std::string text(int width = 0) const {
    return info_text(environment, host, "/nowhere/data", width);
  }
};

InfoOf info() {
  InfoOf made;
  made.environment.cpu = {.model = "A Processor",
                          .cores = 4,
                          .processors = 8,
                          .l2_bytes = 1 << 20,
                          .l3_bytes = 0,
                          .memory_bytes = std::uint64_t{16} << 30,
                          .features = {"avx2"}};
  made.environment.libraries = {{"oneDNN", "2.6.3"}};
  return made;
}

TEST(Info, TellsVersionBuildDevicesLibrariesLimitsAndPlaces) {
  const std::string text = info().text();
  EXPECT_THAT(text, HasSubstr("ddpbench " DDPBENCH_TEST_VERSION));
  for (const char* part :
       {"there", "compiler", "strategies       single, dp", "A Processor",
        "4 cores, 8 hardware threads", "L2 1 MiB a core, L3 unknown, memory 16 GiB", "2.6.3",
        "\n  shm ", "open files       ", "mnist", "simple_cnn", "/nowhere/data (not there)"})
    EXPECT_THAT(text, HasSubstr(part));
  InfoOf small = info();
  small.environment.cpu.cores = small.environment.cpu.processors = 1;
  EXPECT_THAT(small.text(),
              HasSubstr("1 core, 1 hardware thread: up to 1 device of 1 thread without sharing"));
}

TEST(Info, FoldsToTheTerminal) {
  InfoOf made = info();
  made.host.cuda.reason = "built without CUDA, which the option DDPBENCH_ENABLE_CUDA has added";
  for (const int width : {60, 80, 120}) {
    std::istringstream lines(made.text(width));
    for (std::string line; std::getline(lines, line);) {
      const bool one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
      EXPECT_TRUE(one_word || line.size() <= static_cast<std::size_t>(width)) << line;
    }
  }
  EXPECT_THAT(made.text(60), HasSubstr("cuda             built without CUDA, which the option\n"
                                       "                   DDPBENCH_ENABLE_CUDA has added"));
}

TEST(Info, TellsThePrecisionsOfCpuDevices) {
  InfoOf made = info();
  EXPECT_THAT(made.text(), HasSubstr("--precision: fp32, bf16\n"));
  made.host.no_cpu_bf16 = "the processor is old";
  EXPECT_THAT(made.text(), HasSubstr("--precision: fp32; not bf16: the processor is old\n"));
}

TEST(Info, TellsWhatGpusAre) {
  InfoOf made = info();
  report::GpuInfo gpu{.name = "A GPU", .driver = "1.2", .memory_bytes = std::uint64_t{8} << 30};
  gpu.uuid = "GPU-1";
  gpu.pci_bus_id = "0000:17:00.0";
  gpu.compute_capability = "9.0";
  made.environment.gpus = {gpu};
  for (const char* part : {"A GPU, 8 GiB, driver 1.2", "GPU-1, PCI 0000:17:00.0, NUMA node unknown",
                           "compute capability 9.0"})
    EXPECT_THAT(made.text(), HasSubstr(part));
}

TEST(Info, OfThisMachineIsPrinted) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(show_info("/d"), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::AllOf(HasSubstr("onednn"), HasSubstr("/d (not there)")));
}

}  // namespace
}  // namespace ddpbench::bench
