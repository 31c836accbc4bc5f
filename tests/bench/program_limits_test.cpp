// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The program where limits of the system are reached, or its whole job is stopped for a while.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "tests/bench/program.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Limits : public testing::Test {
 protected:
  Limits() { program.write("lenet.json", test::small_config({})); }
  Program program;
};

// ---- the whole job is stopped ----

// The stop lasts longer than the timeout. Whatever ran is stopped for so long.
constexpr int kTimeout_s = 3;
constexpr auto kStop = std::chrono::milliseconds(4500);

// The last rank is slow, so that another waits for it most of the time; dp has one rank.
std::string slow_rank(std::string_view strategy) {
  return fmt::format("--inject=slow:rank={},phase=forward,percent=8000", strategy == "dp" ? 0 : 1);
}

class StoppedJob : public testing::TestWithParam<const char*> {
 protected:
  void stop_after(int seconds) {
    Program program;
    program.write("lenet.json",
                  test::small_config({.steps = 150, .warmup_steps = 20, .timeout_s = kTimeout_s}));
    // A process group of its own, as a shell makes for a job.
    program.prepare = [] { ::setpgid(0, 0); };
    const auto arguments = small_run(GetParam(), {slow_rank(GetParam())});
    const ProgramResult result = program.run(arguments, [&](int pid) {
      EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 2; }));
      std::this_thread::sleep_for(std::chrono::seconds(seconds));
      ::kill(-pid, SIGSTOP);
      std::this_thread::sleep_for(kStop);
      ::kill(-pid, SIGCONT);
    });
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(program.report()["status"], "ok");
  }
};

TEST_P(StoppedJob, GoesOnAfterLongerThanTheTimeout) { stop_after(1); }

INSTANTIATE_TEST_SUITE_P(Strategies, StoppedJob, testing::Values("dp", "ddp", "ps"),
                         [](const auto& test) { return std::string(test.param); });

// A shell stops the processes that a launcher started, and what they started, all alike.
TEST_F(Limits, AWorldOfALauncherThatIsStoppedGoesOnAfterLongerThanTheTimeout) {
  program.write("lenet.json",
                test::small_config(
                    {.steps = 150, .warmup_steps = 1, .verify_steps = 0, .timeout_s = kTimeout_s}));
  test::Ranks ranks(program, test::world(2, test::free_port()));
  ranks.start_all(
      {"--strategy=ddp", "--config=lenet.json", slow_rank("ddp"), "--json=report.json"});
  EXPECT_TRUE(Program::wait_until([&] { return !test::processes_of_rank(program, 1).empty(); }));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::vector<int> all = program.processes();
  for (const int pid : all) ::kill(pid, SIGSTOP);
  std::this_thread::sleep_for(kStop);
  for (const int pid : all) ::kill(pid, SIGCONT);
  const ProgramResult first = ranks.finish(0);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(ranks.finish(1).exit_code, 0);
  EXPECT_EQ(program.report()["status"], "ok");
}

// ---- the supervisor alone is stopped ----

// The ranks go on. Where they need the supervisor, because they still look for each other in its
// store, they wait for it.
class StoppedSupervisor : public testing::TestWithParam<bool> {};

TEST_P(StoppedSupervisor, GoesOnAfterLongerThanTheTimeout) {
  const bool at_start = GetParam();
  constexpr auto kLongStop = std::chrono::milliseconds(5500);
  Program program;
  program.write("lenet.json", test::small_config(
                                  {.epochs = 20, .steps = 100, .verify_steps = 0, .timeout_s = 3}));
  // Fast devices would have trained before the stop.
  const auto arguments = small_run("ddp", {"--inject=slow:rank=1,ms=2"});
  const ProgramResult result = program.run(arguments, [&](int pid) {
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 3; }));
    if (!at_start) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    ::kill(pid, SIGSTOP);
    std::this_thread::sleep_for(kLongStop);
    ::kill(pid, SIGCONT);
  });
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  EXPECT_EQ(report["status"], "ok");
  EXPECT_EQ(report["runs"][0]["step"]["count"], 2000);
}

INSTANTIATE_TEST_SUITE_P(, StoppedSupervisor, testing::Bool(),
                         [](const auto& p) { return p.param ? "WhileRanksMeet" : "InTraining"; });

// ---- the network ----

// Whether a process can leave this network for one of its own, in which loopback is down.
bool leave_network() { return ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; }

bool may_leave_network() {
  const int pid = ::fork();
  if (pid == 0) ::_exit(leave_network() ? 0 : 1);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class WithoutLoopback : public Limits {
 protected:
  void SetUp() override {
    if (!may_leave_network()) GTEST_SKIP() << "no network namespaces here";
    program.prepare = [] { leave_network(); };
  }
};

TEST_F(WithoutLoopback, RunsOfOneProcessNeedNoPort) {
  for (const char* const strategy : {"single", "dp"}) {
    const ProgramResult result = program.run(small_run(strategy, {"--force"}));
    EXPECT_EQ(result.exit_code, 0) << strategy << ": " << result.err;
  }
}

TEST_F(WithoutLoopback, OthersSayAtOnceWhatIsMissing) {
  const auto begin = std::chrono::steady_clock::now();
  const ProgramResult result = program.run(small_run("ddp", {"--verify-steps=0", "--timeout=600"}));
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("ip link set lo up"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(program.report()["status"], "failed");
}

// ---- descriptors, processes and memory ----

void limit(__rlimit_resource resource, rlim_t value) {
  const rlimit both{value, value};
  ::setrlimit(resource, &both);
}

TEST_F(Limits, OfOpenFilesAreCheckedBeforeTheRun) {
  program.prepare = [] { limit(RLIMIT_NOFILE, 20); };
  const ProgramResult result = program.run(small_run("ddp", {"--timeout=600"}));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("but 20 are allowed"), HasSubstr("ulimit -n")));
  EXPECT_EQ(program.report()["status"], "failed");
}

TEST_F(Limits, OfOpenFilesNeverMakeItWait) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at objects through a pipe, and gets none here";
#endif
  for (const rlim_t files : {8U, 10U, 12U, 15U}) {
    program.prepare = [files] { limit(RLIMIT_NOFILE, files); };
    for (const char* const strategy : {"single", "ddp", "ps"}) {
      const ProgramResult result =
          program.run(small_run(strategy, {"--timeout=600", "--force", "--verify-steps=0"}));
      EXPECT_THAT(result.exit_code, testing::AnyOf(0, 2, 3)) << strategy << ": " << result.err;
      if (result.exit_code != 0) {
        EXPECT_THAT(result.err, HasSubstr("ddpbench: "));
      }
      EXPECT_THAT(result.err, Not(HasSubstr("internal")));
    }
  }
}

TEST_F(Limits, OfSoftDescriptorsAreRaised) {
  program.prepare = [] {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = 15;
    ::setrlimit(RLIMIT_NOFILE, &files);
  };
  const ProgramResult result = program.run(small_run("ddp"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Limits, OfFileSizesAreToldAsSuch) {
  program.prepare = [] { limit(RLIMIT_FSIZE, 1 << 20); };
  const ProgramResult result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("File too large"));
}

// A control group of this test for the program, with so much memory; skipped where none can be
// made.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::uint64_t bytes) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const std::string path = line.substr(line.rfind(':') + 1);
      if (!line.starts_with("0::")) continue;
      try_below(fs::path("/sys/fs/cgroup" + path), bytes);
      if (!directory_.empty()) return;
    }
  }
  ~MemoryGroup() {
    for (int i = 0; i < 100 && !directory_.empty() && ::rmdir(directory_.c_str()) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return !directory_.empty(); }
  void enter() const { std::ofstream(directory_ / "cgroup.procs") << ::getpid(); }
  std::size_t processes() const {
    std::ifstream file(directory_ / "cgroup.procs");
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

 private:
  void try_below(const fs::path& base, std::uint64_t bytes) {
    const fs::path directory = base / ("ddpbench-test-" + std::to_string(::getpid()));
    if (::mkdir(directory.c_str(), 0755) != 0) return;
    std::ofstream file(directory / "memory.max");
    if (fs::exists(directory / "cgroup.procs") && file << bytes << std::flush) {
      directory_ = directory;
    } else {
      ::rmdir(directory.c_str());
    }
  }
  fs::path directory_;
};

TEST_F(Limits, OfAControlGroupsMemoryAreCheckedBeforeAnythingIsAllocated) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more memory than the limit here";
#endif
  const MemoryGroup group(std::uint64_t{400} << 20);
  if (!group.made()) GTEST_SKIP() << "no control group can be made here";
  program.prepare = [&group] { group.enter(); };
  const ProgramResult fits = program.run(small_run("ddp"));
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  const ProgramResult result =
      program.run(small_run("ddp", {"--force", "--batch-size=20000", "--verify-steps=0"}));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr(" with a batch of 20000 per device needs "));
}

// Takes the memory of a control group bit by bit, until a process of the group has ended. It has
// nearly all of it in a file without a name, which belongs to the group and to no process: so the
// kernel does not choose the eater.
class Eater {
 public:
  explicit Eater(const MemoryGroup& group) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    group.enter();
    static const char bite[1 << 20] = {};
    const int file = ::memfd_create("ddpbench-test-eater", MFD_CLOEXEC);
    for (const std::size_t all = group.processes(); group.processes() >= all;) {
      [[maybe_unused]] const ssize_t written = ::write(file, bite, sizeof bite);
      // The kernel ends nobody for a write, only for a page that a process touches.
      auto* const page = static_cast<volatile char*>(
          ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      *page = 1;
      ::usleep(2'000);
    }
    for (;;) ::pause();
  }
  ~Eater() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Eater(const Eater&) = delete;
  Eater& operator=(const Eater&) = delete;

 private:
  pid_t pid_;
};

TEST_F(Limits, OfAControlGroupsMemoryEndARankAndTheSupervisorLeavesTheReport) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take more memory than the limit here";
#endif
  const MemoryGroup group(std::uint64_t{300} << 20);
  if (!group.made()) GTEST_SKIP() << "no control group can be made here";
  program.prepare = [&group] { group.enter(); };
  std::optional<Eater> eater;
  const ProgramResult result = program.run(
      small_run("ddp", {"--steps=100000", "--epochs=5000", "--verify-steps=0"}), [&](int) {
        EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 3; }));
        eater.emplace(group);
      });
  eater.reset();
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json error = program.report()["error"];
  EXPECT_EQ(error["signal"], SIGKILL);
  EXPECT_TRUE(error["rank"].is_number()) << error;
  EXPECT_THAT(error["message"].get<std::string>(),
              AllOf(HasSubstr("memory ran out"), HasSubstr("314572800 bytes")));
  EXPECT_TRUE(program.processes().empty());
}

// ---- the places of results ----

TEST_F(Limits, OfSeveralCommandsWithOneReportOneRunsAndTheOthersAreRefusedBeforeTraining) {
  std::vector<std::map<std::string, std::string>> four(4);
  const auto results = program.run_together(small_run("ddp", {"--repetitions=4"}), four);
  int done = 0;
  for (const ProgramResult& result : results) {
    if (result.exit_code == 0) {
      ++done;
      continue;
    }
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("report.json exists already"));
    EXPECT_THAT(result.out, Not(HasSubstr("steps"))) << "it has trained";
  }
  EXPECT_EQ(done, 1);
  EXPECT_EQ(program.report()["runs"].size(), 4U);
}

TEST_F(Limits, APlannedReportIsThereFromTheStart) {
  const ProgramResult result =
      program.run(small_run("single", {"--repetitions=1000"}), [&](int pid) {
        EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 2; }));
        EXPECT_EQ(program.report()["status"], "interrupted");
        ::kill(pid, SIGKILL);
      });
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_EQ(program.report()["status"], "interrupted");
}

TEST_F(Limits, AResultWhosePlaceIsGoneFailsTheCommand) {
  fs::create_directory(program.path("results"));
  const std::vector<std::string> arguments = {"--strategy=single", "--config=lenet.json",
                                              "--json=results/there.json", "--repetitions=5"};
  const ProgramResult result = program.run(arguments, [&](int) {
    EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 2; }));
    fs::remove_all(program.path("results"));
  });
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cannot write results/there.json"));
}

// ---- numbers without bounds ----

TEST_F(Limits, MoreStepsThanCanBeRecordedAreRefused) {
  const ProgramResult result = program.run(
      small_run("single", {"--steps=1000000000000", "--epochs=1000000", "--batch-size=1"}));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("timed steps; a run has at most 20000000"));
}

TEST_F(Limits, MoreProcessesThanMemoryAreRefused) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves too few addresses for their channels";
#endif
  const ProgramResult result =
      program.run(small_run("ps", {"--servers=8000", "--oversubscribe", "--verify-steps=0"}));
  EXPECT_THAT(result.exit_code, testing::AnyOf(2, 3)) << result.err;
  EXPECT_THAT(result.err, HasSubstr("processes need"));
}

TEST_F(Limits, WithoutAHomeTheDataDirectoryIsAskedFor) {
  program.environment["HOME"] = "";
  const ProgramResult result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("HOME"), HasSubstr("--data-dir"), Not(HasSubstr("in ;"))));
}

}  // namespace
}  // namespace ddpbench
