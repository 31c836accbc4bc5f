// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// --dry-run finds what a run would find before its first step, and ends as the run would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <regex>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using test::Program;
using test::ProgramResult;
using test::small_run;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class DryRun : public testing::Test {
 protected:
  DryRun() { program.write("lenet.json", test::small_config({.steps = 1, .verify_steps = 1})); }
  ProgramResult dry(std::vector<std::string> arguments) {
    arguments.emplace_back("--dry-run");
    return program.run(arguments);
  }
  Program program;
};

TEST_F(DryRun, SetsUpEveryRunAndLeavesNothing) {
  const ProgramResult result = dry(small_run("single,dp,ddp,ps", {"--repetitions=2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("4 runs checked: all can start"));
  EXPECT_FALSE(std::filesystem::exists(program.path("report.json")));
  EXPECT_TRUE(program.processes().empty());
}

TEST_F(DryRun, SaysHowLongTheRunsTakeAndWhereTheReportGoes) {
  const ProgramResult result = dry(small_run("single,ddp", {"--repetitions=3"}));
  EXPECT_THAT(result.out,
              testing::ContainsRegex("\n6 runs, about [0-9]+ s; report: report.json\n$"));
  EXPECT_THAT(result.out, Not(HasSubstr("configuration: {")));
  EXPECT_THAT(dry(small_run("single", {"-v"})).out, HasSubstr("configuration: {"));
  const ProgramResult tune =
      dry({"tune", "--gpus=2", "--config=lenet.json", "--overlap=on", "--first-bucket-mb=0.01"});
  EXPECT_THAT(tune.out,
              testing::ContainsRegex("\n[0-9]+ runs, about [0-9]+ (s|min); report: ddpbench-"));
}

// The note comes before what fails here.
TEST_F(DryRun, ALargeNetworkAloneMakesAFirstAnswerOfFewSteps) {
  const auto note = [this](const std::string& model) {
    return dry({"--model=" + model, "--json=missing/report.json"}).out;
  };
  EXPECT_THAT(note("resnet18"), HasSubstr("compares as configs/quick-large.json: single, dp,"));
  EXPECT_THAT(note("resnet20"), HasSubstr("compares as configs/quick.json: single, dp,"));
}

// Every fourth step averages the weights, which takes 200 ms or more.
TEST_F(DryRun, TimesWholeCyclesOfLocalSgd) {
  const ProgramResult result = dry(small_run(
      "localsgd", {"--steps=200", "--sync-every=4", "--warmup-steps=0", "--warmup-max-steps=0",
                   "--verify-steps=0", "--emulate-link=1Gbit,200ms"}));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.out, found, std::regex("about ([0-9]+) s"))) << result.err;
  EXPECT_GE(std::stoi(found[1]), 10) << result.out;
}

TEST_F(DryRun, MeetsNoPlantedFault) {
  const ProgramResult result = dry(small_run("ddp", {"--inject=kill:rank=1,step=0"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(DryRun, SaysWhatSharesCores) {
  const ProgramResult result =
      dry(small_run("dp", {"--gpus=64", "--batch-size=1", "--oversubscribe"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("1 epoch of 1 step, oversubscribed (64 devices of 1 thread on "));
}

TEST_F(DryRun, SaysNoMoreOfRunsThatFit) {
  EXPECT_THAT(dry(small_run("single")).out, Not(HasSubstr("oversubscribed")));
}

TEST_F(DryRun, OfTuneRefusesAsTheRunsDo) {
  const ProgramResult refused =
      dry({"tune", "--gpus=2", "--config=lenet.json", "--json=no/such/r.json"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("no/such"));
}

struct Obstacle {
  std::string name;
  std::vector<std::string> arguments;
  std::string message;
};

void PrintTo(const Obstacle& obstacle, std::ostream* out) { *out << obstacle.name; }

class Obstacles : public DryRun, public testing::WithParamInterface<Obstacle> {};

TEST_P(Obstacles, AreFoundAsByTheRun) {
  program.write("taken.json", "precious");
  program.write("other.json", R"({"model": "simple_cnn", "steps": 1, "warmup_steps": 0,
      "verify_steps": 0, "batch_size": 4, "dataset": {"name": "mnist", "on_missing": "synthesize"}})");
  program.write("damaged/mnist/train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0", 6));
  program.write("weights.safetensors", "no weights");
  if (GetParam().name == "WeightsOfAnotherNetwork") {
    const ProgramResult made =
        program.run({"--strategy=single", "--config=other.json", "--json=other-report.json",
                     "--save-model=other.safetensors"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_THAT(made.out, HasSubstr("\nweights: other.safetensors\n"));
  }
  std::vector<std::string> arguments = {"--config=lenet.json", "--strategy=ddp"};
  const std::vector<std::string>& own = GetParam().arguments;
  arguments.insert(arguments.end(), own.begin(), own.end());
  if (!own.front().starts_with("--gpus=")) arguments.emplace_back("--gpus=2");
  const ProgramResult wanted = program.run(arguments);
  EXPECT_NE(wanted.exit_code, 0);
  EXPECT_THAT(wanted.err, HasSubstr(GetParam().message));
  const ProgramResult result = dry(arguments);
  EXPECT_EQ(result.exit_code, wanted.exit_code);
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    , Obstacles,
    testing::Values(
        Obstacle{"AbsentReportFolder", {"--json=no/such/r.json"}, "no/such"},
        Obstacle{"ReportThatExists", {"--json=taken.json"}, "taken.json exists already"},
        Obstacle{"ReportThatIsAFolder", {"--json=damaged", "--force"}, "not a regular file"},
        Obstacle{"AbsentTraceFolder", {"--trace=no/such/t.json"}, "no/such"},
        Obstacle{"AbsentWeightsFolder", {"--save-model=no/such/w.safetensors"}, "no/such"},
        Obstacle{"AbsentWeights", {"--load-model=none.safetensors"}, "none.safetensors"},
        Obstacle{"DamagedWeights", {"--load-model=weights.safetensors"}, "weights.safetensors"},
        Obstacle{
            "WeightsOfAnotherNetwork", {"--load-model=other.safetensors"}, "other.safetensors"},
        Obstacle{"AbsentData", {"--data-dir=no/such"}, "no such directory"},
        Obstacle{
            "DataWithATooLongName", {"--data-dir=" + std::string(5000, 'x')}, "no such directory"},
        Obstacle{"DamagedData", {"--data-dir=damaged"}, "train-images"},
        Obstacle{"TooManyProcesses",
                 {"--gpus=8000", "--batch-size=1", "--oversubscribe", "--verify-steps=0"},
                 "8000 processes need"},
        Obstacle{"TooManyDevices", {"--gpus=60000", "--batch-size=1"}, "--gpus=60000: there "},
        Obstacle{"AbsentDevice", {"--device=rocm"}, "auto, cpu, cuda"}),
    [](const auto& p) { return p.param.name; });

// All runs have one network, so the file is refused once, before any of them.
TEST_F(DryRun, AndRunsRefuseWeightsOfAnotherNetworkOnceForAll) {
  program.write("none.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  const std::vector<std::string> arguments = {"--config=lenet.json", "--strategy=single,dp,ddp",
                                              "--gpus=2", "--load-model=none.safetensors"};
  for (const ProgramResult& result : {program.run(arguments), dry(arguments)}) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err,
                StartsWith("ddpbench: --load-model: none.safetensors: the tensors are "
                           "not those of the model lenet5: 10 missing (\"conv1.weight\""));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

// The system does not look up such a name at all.
TEST_F(DryRun, FindsNoNetworkOfATooLongName) {
  program.write("long.json", R"({"model": ")" + std::string(5000, 'x') + R"("})");
  const ProgramResult result = dry({"--config=long.json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("neither a file nor a name"));
}

TEST_F(DryRun, FindsThatMemoryIsTooSmall) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map more address space than any limit here";
#endif
  program.prepare = [] {
    const rlimit limit{.rlim_cur = rlim_t{1} << 30, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
  };
  EXPECT_EQ(dry(small_run("ddp", {"--batch-size=16"})).exit_code, 0);
  const ProgramResult refused = dry(small_run("ddp", {"--batch-size=60000"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr(" with a batch of 60000 per device needs "));
}

}  // namespace
}  // namespace ddpbench
