// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Worlds whose processes an external launcher started, placed by the variables of torchrun: they
// make what one command would make here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/cpu_topology.h"
#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::free_port;
using test::Listener;
using test::Program;
using test::world;
using testing::HasSubstr;

const std::string kConfig = test::small_config({.steps = 6, .timeout_s = 30});

class StartedWorld : public testing::Test {
 protected:
  StartedWorld() { program.write("lenet.json", kConfig); }
  std::vector<std::string> arguments(const std::string& strategy,
                                     const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"--strategy=" + strategy, "--config=lenet.json",
                                 "--json=report.json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Program program;
};

TEST_F(StartedWorld, WritesOneVerifiedReportFromRankZero) {
  const auto results = program.run_together(arguments("ddp"), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(results[0].out, HasSubstr("report: report.json"));
  EXPECT_EQ(results[1].out, "");
  EXPECT_EQ(program.report()["environment"]["launcher"], "environment");
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["world_size"], 2);
  EXPECT_EQ(run["verification"]["status"], "passed");
  EXPECT_EQ(run["step"]["count"], 6);
  EXPECT_EQ(run["devices"].size(), 2u);
  EXPECT_TRUE(run["conditions"]["other_load_ratio"].is_number());
  EXPECT_TRUE(run["conditions"]["major_page_faults"].is_number());
}

// Ranks without a part in a run wait.
TEST_F(StartedWorld, MakesTheWholeMatrixAndResumesIt) {
  const auto make = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--gpus=1,2", "--steps=2", "--verify-steps=1"};
    all.insert(all.end(), more.begin(), more.end());
    const auto results = program.run_together(arguments("single,ddp", all), world(2, free_port()));
    for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(results[1].out, "");
    std::vector<std::string> made;
    const json report = program.report();
    for (const json& run : report["runs"]) {
      EXPECT_EQ(run["status"], "ok");
      EXPECT_NE(run["verification"]["status"], "failed");
      made.push_back(run["strategy"].get<std::string>() + run["world_size"].dump() +
                     run["repetition"].dump());
    }
    EXPECT_EQ(report["status"], "ok");
    return std::pair(results[0].out, made);
  };
  EXPECT_THAT(make({"--repetitions=2"}).second,
              testing::ElementsAre("single10", "single11", "ddp10", "ddp11", "ddp20", "ddp21"));
  const auto [said, resumed] = make({"--repetitions=3", "--resume=report.json"});
  EXPECT_THAT(said, HasSubstr("6 of its 6 runs are kept"));
  EXPECT_EQ(resumed.size(), 9U);
}

// As `python -m torch.distributed.launch` starts them.
TEST_F(StartedWorld, TakesTheLocalRankFromAnArgument) {
  const int port = free_port();
  std::vector<int> pids;
  for (int rank = 0; rank < 2; ++rank) {
    test::Variables variables = world(2, port).at(static_cast<std::size_t>(rank));
    variables.erase("LOCAL_RANK");
    const std::string word = rank == 0 ? "--local_rank=" : "--local-rank=";
    std::vector<std::string> all{word + std::to_string(rank)};
    for (std::string& argument : arguments("ddp")) all.push_back(std::move(argument));
    pids.push_back(program.start(all, variables, "." + std::to_string(rank)));
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto result = program.finish(pids[rank], "." + std::to_string(rank));
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  const json report = program.report();
  EXPECT_EQ(report["runs"][0]["verification"]["status"], "passed");
  EXPECT_FALSE(report["config"].contains("local_rank"));
}

TEST_F(StartedWorld, RefusesALocalRankWhereNoLauncherStartedTheProgram) {
  const auto alone = program.run(arguments("ddp", {"--local_rank=0"}));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("RANK is not set"));
}

TEST_F(StartedWorld, TracesEveryRankInOneFile) {
  const auto results =
      program.run_together(arguments("ddp", {"--trace=trace.json"}), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json trace = json::parse(program.read("trace.json"));
  EXPECT_THAT(test::trace_problems(trace), testing::IsEmpty());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(test::count_events(trace, rank, "step"), 6);
    EXPECT_GT(test::count_events(trace, rank, "layer"), 0);
    EXPECT_GT(test::count_events(trace, rank, "bucket"), 0);
  }
}

TEST_F(StartedWorld, TakesTheNextPortWhereTorchrunsAgentListens) {
  const Listener agent;
  const auto results = program.run_together(
      arguments("ddp"),
      world(2, agent.port(),
            {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "job"}}));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["status"], "ok");
}

TEST_F(StartedWorld, CountsServersAsTheLastProcesses) {
  const auto results =
      program.run_together(arguments("ps", {"--servers=1"}), world(3, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["world_size"], 2);
  EXPECT_EQ(run["servers"], 1);
}

TEST_F(StartedWorld, TakesAllDevicesToBeTheWorldsAndPlansWithoutTraining) {
  const auto results =
      program.run_together(arguments("ddp", {"--gpus=all", "--dry-run"}), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(results[0].out, testing::AllOf(HasSubstr("ddp on 2 devices"),
                                             HasSubstr("1 run checked: all can start")));
  EXPECT_EQ(results[1].out, "");
  EXPECT_EQ(program.read("report.json"), "");
}

// What a run would find before its first step, with its exit code, and no step.
TEST_F(StartedWorld, SetsItsRanksUpForADryRun) {
  const auto dry = program.run_together(
      arguments("ps", {"--dry-run", "--inject=kill:rank=1,step=0"}), world(3, free_port()));
  for (const auto& result : dry) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.read("report.json"), "");
}

// Rank 0's process says so, and the others end with it.
TEST_F(StartedWorld, RefusesWhatCannotStart) {
  program.write("weights.safetensors", "no weights");
  const auto refused = [&](const std::vector<std::string>& more) {
    const auto results = program.run_together(arguments("ddp", more), world(2, free_port()));
    EXPECT_EQ(results[0].exit_code, 2);
    EXPECT_EQ(results[1].err, "");
    EXPECT_EQ(program.read("report.json"), "");
    return results[0].err;
  };
  EXPECT_THAT(refused({"--gpus=3"}),
              HasSubstr("a run has 3 ranks (--gpus, --servers), but a launcher started 2"));
  EXPECT_THAT(refused({"--load-model=weights.safetensors"}), HasSubstr("weights.safetensors"));
}

// A launcher's binding holds.
TEST_F(StartedWorld, MarksRanksThatShareACore) {
  program.executable = "/usr/bin/taskset";
  std::vector<std::string> words{"-c", std::to_string(read_cpu_topology().cores.front()),
                                 DDPBENCH_BINARY, "--force"};
  for (const std::string& word : arguments("ddp", {"--steps=2"})) words.push_back(word);
  for (const auto& result : program.run_together(words, world(2, free_port()))) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_TRUE(program.report()["runs"][0]["oversubscribed"]);
}

}  // namespace
}  // namespace ddpbench
