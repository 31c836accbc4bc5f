// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU whose kernels never end, in a world that an external launcher started. It has no
// supervisor, so the rank itself must notice. On the stand-in (see program_test.cpp).
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "tests/bench/world_ranks.h"
#include "tests/cuda/cuda_program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;

// Strategies of one process, and the number of events after which their device hangs.
struct HangCase {
  const char* strategy;
  int events;
  const char* residency;
};
void PrintTo(const HangCase& c, std::ostream* out) { *out << c.strategy << " at " << c.events; }

class HungDevice : public test::CudaProgram, public testing::WithParamInterface<HangCase> {
 protected:
  void SetUp() override {
    CudaProgram::SetUp();
    // With few digits a late event is never reached.
    if (GetParam().events > 100) std::filesystem::remove_all(program.path(".cache"));
    program.environment["STAND_IN_HANGS_AT"] = std::to_string(GetParam().events);
    const test::Variables launcher = test::world(1, test::free_port())[0];
    program.environment.insert(launcher.begin(), launcher.end());
  }
  std::vector<std::string> arguments(int timeout_s) {
    return test::small_run(
        GetParam().strategy,
        {"--device=cuda",
         "--gpus=" + std::string(GetParam().strategy == std::string("dp") ? "2" : "1"),
         "--verify-steps=0", std::string("--residency=") + GetParam().residency,
         "--timeout=" + std::to_string(timeout_s)});
  }
};

TEST_P(HungDevice, EndsTheRunAtTheDeadlineAndSaysWhatWasWaitedFor) {
  const auto result = program.run(arguments(1));
  EXPECT_EQ(result.exit_code, 4) << result.out << result.err;
  const json report = program.report();
  EXPECT_EQ(report.at("status"), "failed");
  const json& error = report.at("error");
  EXPECT_EQ(error.at("kind"), "timeout");
  EXPECT_EQ(error.at("rank"), 0);
  EXPECT_THAT(
      error.at("message").get<std::string>(),
      MatchesRegex("rank 0, step [0-9]+: waited 1(\\.5)? s for .* on cuda:0, which did not .*"));
}

TEST_P(HungDevice, EndsWhenTheUserInterrupts) {
  const auto result = program.run(arguments(0), [&](int pid) {
    EXPECT_TRUE(program.wait_until([&] { return std::filesystem::exists(program.path("hangs")); }));
    ::kill(pid, SIGINT);
  });
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_EQ(program.report().at("status"), "interrupted");
}

INSTANTIATE_TEST_SUITE_P(Runs, HungDevice,
                         testing::Values(HangCase{"single", 30, "host"},
                                         HangCase{"single", 700, "host"},
                                         HangCase{"single", 700, "device"},
                                         HangCase{"dp", 30, "host"}));

// Among ranks of a launcher, too.
TEST(HungMeasurement, EndsAtTheDeadlineWithAReport) {
  test::Program program;
  program.environment = {{"STAND_IN_GPUS", "2"}, {"STAND_IN_HANGS_AT", "200"}};
  const auto ranks =
      program.run_together({"comm", "--device=cuda", "--backend=shm", "--sizes=4K",
                            "--iterations=2000", "--timeout=1", "--json=report.json"},
                           test::world(2, test::free_port()));
  EXPECT_EQ(ranks[0].exit_code, 4) << ranks[0].out << ranks[0].err;
  const json report = program.report();
  EXPECT_EQ(report.at("status"), "failed");
  // A rank says so itself, unless word of it comes after the supervisor's own deadline.
  EXPECT_THAT(report.at("error").at("message").get<std::string>(),
              testing::AnyOf(HasSubstr("deadline passed"), HasSubstr("stands still")));
}

// NCCL hangs while it connects two devices, with two ranks or in one process.
class HungJoin : public test::CudaProgram {
 protected:
  HungJoin() { program.environment["STAND_IN_NCCL_JOIN_HANGS"] = "1"; }
  void expect_timeout(const std::string& strategy) {
    expect_timeout_of(test::small_run(strategy, {"--device=cuda", "--gpus=2", "--backend=nccl",
                                                 "--verify-steps=0", "--timeout=2"}));
  }
  void expect_timeout_of(const std::vector<std::string>& arguments) {
    const auto result = program.run(arguments);
    EXPECT_EQ(result.exit_code, 4) << result.out << result.err;
    const json error = program.report().at("error");
    EXPECT_EQ(error.at("kind"), "timeout") << error.dump();
    EXPECT_EQ(error.at("signal"), nullptr);
    EXPECT_THAT(error.at("message").get<std::string>(),
                HasSubstr("NCCL did not connect all ranks within 2 s"));
  }
};

TEST_F(HungJoin, EndsAProcessThatALauncherStarted) {
  const test::Variables launcher = test::world(1, test::free_port())[0];
  program.environment.insert(launcher.begin(), launcher.end());
  expect_timeout("dp");
}

TEST_F(HungJoin, EndsProcessesOfTheSupervisor) { expect_timeout("ddp"); }
TEST_F(HungJoin, EndsAProcessOfTheSupervisorWithAllDevices) { expect_timeout("dp"); }

TEST_F(HungJoin, EndsAMeasurementOfCollectives) {
  for (const char* mode : {"--mode=process", "--mode=thread"}) {
    expect_timeout_of({"comm", "--device=cuda", "--gpus=all", "--backend=nccl", "--sizes=4K",
                       "--timeout=2", "--json=report.json", "--force", mode});
  }
}

}  // namespace
}  // namespace ddpbench
