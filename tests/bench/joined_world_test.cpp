// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that an external launcher started, placed by the variables of torchrun and mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/cpu_topology.h"
#include "tests/bench/joined_ranks.h"
#include "tests/bench/program.h"
#include "tests/bench/trace_checker.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::free_port;
using test::Listener;
using test::Program;
using test::Ranks;
using test::world;
using testing::HasSubstr;

const std::string kConfig = test::small_config({.steps = 6, .timeout_s = 30});

class JoinedWorld : public testing::Test {
 protected:
  JoinedWorld() { program.write("lenet.json", kConfig); }
  std::vector<std::string> arguments(const std::string& strategy,
                                     const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"--strategy=" + strategy, "--config=lenet.json",
                                 "--json=report.json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Program program;
};

TEST_F(JoinedWorld, WritesOneVerifiedReportFromRankZero) {
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
}

// As `python -m torch.distributed.launch` starts them.
TEST_F(JoinedWorld, TakesTheLocalRankFromAnArgument) {
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

TEST_F(JoinedWorld, RefusesALocalRankThatContradictsTheVariables) {
  for (const auto& result :
       program.run_together(arguments("ddp", {"--local-rank=1"}), {world(2, free_port()).at(0)})) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--local-rank=1 but LOCAL_RANK=0"));
  }
  const auto alone = program.run(arguments("ddp", {"--local_rank=0"}));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("RANK is not set"));
}

TEST_F(JoinedWorld, TracesEveryRankInOneFile) {
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

TEST_F(JoinedWorld, TakesTheNextPortWhereTorchrunsAgentListens) {
  const Listener agent;
  const auto results = program.run_together(
      arguments("ddp"),
      world(2, agent.port(),
            {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "job"}}));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report()["status"], "ok");
}

TEST_F(JoinedWorld, CountsServersAsTheLastProcesses) {
  const auto results =
      program.run_together(arguments("ps", {"--servers=1"}), world(3, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["world_size"], 2);
  EXPECT_EQ(run["servers"], 1);
}

TEST_F(JoinedWorld, RecordsTheConditionsThatRankZeroCanKnow) {
  const auto results = program.run_together(arguments("ddp"), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json conditions = program.report()["runs"][0]["conditions"];
  ASSERT_TRUE(conditions.is_object());
  EXPECT_TRUE(conditions["notes"].is_array());
  EXPECT_TRUE(conditions["other_load_ratio"].is_number());
  EXPECT_TRUE(conditions["major_page_faults"].is_number());
  EXPECT_THAT(conditions["involuntary_context_switches_reason"].get<std::string>(),
              HasSubstr("rank 0 does not see it"));
}

TEST_F(JoinedWorld, MarksRanksThatShareACore) {
  const std::vector<int> cores = read_cpu_topology().cores;
  const auto oversubscribed = [&](int second) {
    Ranks ranks(program, world(2, free_port()));
    for (const std::size_t rank : {0U, 1U}) {
      std::vector<std::string> words{"-c", std::to_string(rank == 0 ? cores.front() : second),
                                     DDPBENCH_BINARY, "--force"};
      for (const std::string& word : arguments("ddp")) words.push_back(word);
      ranks.start(rank, words);
    }
    for (const std::size_t rank : {0U, 1U}) {
      const test::ProgramResult result = ranks.finish(rank);
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
    return program.report()["runs"][0]["oversubscribed"].get<bool>();
  };
  program.executable = "/usr/bin/taskset";
  EXPECT_TRUE(oversubscribed(cores.front()));
  if (cores.size() < 2) return;
  EXPECT_FALSE(oversubscribed(cores.back()));
}

TEST_F(JoinedWorld, RefusesLists) {
  const auto results = program.run_together(arguments("ddp,ps"), world(2, free_port()));
  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("one"));
  }
}

TEST_F(JoinedWorld, RefusesADeviceCountThatIsNotTheWorlds) {
  const auto results = program.run_together(arguments("ddp", {"--gpus=3"}), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 2);
}

TEST_F(JoinedWorld, TakesAllDevicesToBeTheWorldsAndPlansWithoutTraining) {
  const auto results =
      program.run_together(arguments("ddp", {"--gpus=all", "--dry-run"}), world(2, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(results[0].out, testing::AllOf(HasSubstr("ddp on 2 devices"),
                                             HasSubstr("1 run checked: all can start")));
  EXPECT_EQ(results[1].out, "");
  EXPECT_EQ(program.read("report.json"), "");
}

// What a run would find before its first step, with its exit code, and no step.
TEST_F(JoinedWorld, SetsItsRanksUpForADryRun) {
  program.write("weights.safetensors", "no weights");
  const auto refused = program.run_together(
      arguments("ddp", {"--dry-run", "--load-model=weights.safetensors"}), world(2, free_port()));
  // As in a run: who finds it says so, and the others may only notice that it failed.
  int finders = 0;
  for (const auto& result : refused) {
    EXPECT_THAT(result.exit_code, testing::AnyOf(2, 4)) << result.err;
    if (result.exit_code != 2) continue;
    ++finders;
    EXPECT_THAT(result.err, HasSubstr("weights.safetensors"));
  }
  EXPECT_GE(finders, 1);
  for (const char* strategy : {"ddp", "ps"}) {
    const auto dry = program.run_together(
        arguments(strategy, {"--dry-run", "--inject=kill:rank=1,step=0"}), world(3, free_port()));
    for (const auto& result : dry) EXPECT_EQ(result.exit_code, 0) << strategy << result.err;
  }
  EXPECT_EQ(program.read("report.json"), "");
}

TEST_F(JoinedWorld, NamesTheRankThatFailed) {
  const auto results = program.run_together(arguments("ddp", {"--inject=throw:rank=1,step=4"}),
                                            world(2, free_port()));
  EXPECT_EQ(results[0].exit_code, 4);
  EXPECT_EQ(results[1].exit_code, 4);
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["rank"], 1);
}

TEST_F(JoinedWorld, ReportsWhatAllRanksHadWhenOneFails) {
  // Steps 0-1 verify, 2 warms up, 3... are timed.
  const auto results = program.run_together(arguments("ddp", {"--inject=throw:rank=1,step=6"}),
                                            world(3, free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 4);
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["devices"].size(), 3u);
  EXPECT_GE(run["step"]["count"], 1);
  for (const json& device : run["devices"]) {
    EXPECT_TRUE(device["step_time_median_s"].is_number()) << device;
  }
}

}  // namespace
}  // namespace ddpbench
