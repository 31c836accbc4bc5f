// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench comm` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> comm(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"comm", "--device=cpu", "--json=report.json", "--iterations=3",
                                     "--warmup=1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// This runs longer than any test waits: it must be ended.
std::vector<std::string> endless(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"comm", "--device=cpu", "--json=report.json",
                                     "--sizes=16M..64M", "--iterations=100000"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class Comm : public testing::TestWithParam<const char*> {
 protected:
  Program program;
};

TEST_P(Comm, MeasuresAndVerifiesEveryCollective) {
  const ProgramResult result =
      program.run(comm({"--op=all", "--sizes=4K,256K", std::string("--mode=") + GetParam()}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("all_reduce"), HasSubstr("report: report.json")));
  const json report = program.report();
  EXPECT_EQ(report["status"], "ok");
  EXPECT_EQ(report["runs"].size(), 0u);
  ASSERT_EQ(report["collectives"].size(), 8u * 2 + 1);
  for (const json& row : report["collectives"]) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_EQ(row["iterations"], 3) << row;
    EXPECT_EQ(row["mode"], GetParam());
    EXPECT_EQ(row["device"], "cpu");
    EXPECT_EQ(row["late_iterations"], 0) << row;
    EXPECT_EQ(row["busbw_gb_per_s"].is_null(), row["op"] == "barrier") << row;
  }
}

TEST_P(Comm, LastsAsLongAsOverAnEmulatedLink) {
  const ProgramResult result =
      program.run(comm({"--op=all_reduce", "--sizes=1M", "--emulate-link=100Mbit,1ms",
                        std::string("--mode=") + GetParam()}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("emulated link 100Mbit,1ms"));
  const json row = program.report()["collectives"][0];
  EXPECT_EQ(row["emulated_link"], "100Mbit,1ms");
  EXPECT_EQ(program.report()["config"]["emulate_link"], "100Mbit,1ms");
  EXPECT_EQ(row["wrong"], 0);
  EXPECT_GE(row["time_s"]["min"], 2e-3 + (1 << 20) / 12.5e6);
  EXPECT_EQ(row["bound_busbw_gb_per_s_reason"], "an emulated link bounds it");
  const auto chart = program.run({"chart", "report.json", "-o", "chart.svg", "--force"});
  EXPECT_THAT(program.read("chart.svg"), HasSubstr("emulated link 100Mbit,1ms")) << chart.err;
  const ProgramResult refused =
      program.run(comm({"--backend=gloo", "--emulate-link=1Gbit,50us", "--force"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("gloo between cpu devices emulates no link"));
}

TEST_P(Comm, TakesEveryTypeAndOperation) {
  for (const char* type : {"fp64", "bf16", "fp16", "int32", "int64", "uint8"}) {
    for (const char* redop : {"average", "max"}) {
      const ProgramResult result = program.run(
          comm({"--op=all_reduce,reduce_scatter", "--sizes=20000", std::string("--type=") + type,
                std::string("--redop=") + redop, std::string("--mode=") + GetParam(), "--force"}));
      EXPECT_EQ(result.exit_code, 0) << type << " " << redop << ": " << result.err;
      const json report = program.report();
      for (const json& row : report["collectives"]) {
        EXPECT_EQ(row["wrong"], 0) << row;
        EXPECT_EQ(row["data_type"], type);
        EXPECT_EQ(row["redop"], redop);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Comm, testing::Values("process", "thread"),
                         [](const auto& p) { return p.param; });

class CommRun : public testing::Test {
 protected:
  Program program;
};

TEST_F(CommRun, GivesABoundUnlessOversubscribed) {
  const unsigned too_many = 1 + std::max(2U, std::thread::hardware_concurrency());
  const ProgramResult result =
      program.run(comm({"--sizes=1M", "--ranks=2," + std::to_string(too_many)}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json report = program.report();
  const json& many = report["collectives"][1];
  EXPECT_EQ(many["ranks"], too_many);
  EXPECT_EQ(many["oversubscribed"], true);
  EXPECT_THAT(many["share_of_bound_reason"].get<std::string>(), HasSubstr("oversubscribed"));
  const json& few = report["collectives"][0];
  if (few["oversubscribed"] == true) return;  // a machine of one core
  EXPECT_GT(few["bound_busbw_gb_per_s"], 0);
  EXPECT_NEAR(few["share_of_bound"].get<double>(),
              few["busbw_gb_per_s"].get<double>() / few["bound_busbw_gb_per_s"].get<double>(),
              1e-9);
  EXPECT_FALSE(report["memory_bandwidth"].empty());
}

TEST_F(CommRun, RoundsSizesDown) {
  const ProgramResult result = program.run(comm({"--sizes=1003", "--op=all_gather"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(", 1 row\n"));
  const json row = program.report()["collectives"][0];
  EXPECT_EQ(row["bytes"], 1000);
  EXPECT_EQ(row["count"], 125);
}

TEST_F(CommRun, IsShownAgainFromItsReport) {
  program.run(comm({"--sizes=4K"}));
  const ProgramResult csv = program.run({"show", "report.json", "--format=csv"});
  EXPECT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_THAT(csv.out, AllOf(StartsWith("op,backend,ranks,"), Not(HasSubstr("strategy"))));
  EXPECT_EQ(program.run({"show", "report.json", "--format=github-benchmark"}).exit_code, 2);
  const ProgramResult shown = program.run({"show", "report.json"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("all_reduce"), HasSubstr("busbw")));
}

TEST_F(CommRun, TakesEveryOptionFromItsVariable) {
  program.environment = {{"DDPBENCH_OP", "broadcast"},  {"DDPBENCH_SIZES", "8K"},
                         {"DDPBENCH_DEVICE", "cpu"},    {"DDPBENCH_ITERATIONS", "4"},
                         {"DDPBENCH_JSON", "env.json"}, {"DDPBENCH_WARMUP", ""},
                         {"DDPBENCH_MODE", "thread"},   {"DDPBENCH_QUIET", "on"}};
  const ProgramResult result = program.run({"comm", "--mode=process"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("ranks (processes)"))) << "quiet";
  const json report = program.report("env.json");
  ASSERT_EQ(report["collectives"].size(), 1u);
  const json& row = report["collectives"][0];
  EXPECT_EQ(row["op"], "broadcast");
  EXPECT_EQ(row["bytes"], 8192);
  EXPECT_EQ(row["iterations"], 4);
  EXPECT_EQ(row["warmup"], 20) << "an empty variable is not set";
  EXPECT_EQ(row["mode"], "process") << "the option wins";
  EXPECT_EQ(report["environment"]["variables"]["DDPBENCH_SIZES"], "8K");
  EXPECT_EQ(report["environment"]["variables"]["DDPBENCH_MODE"], "thread") << "as for runs";
}

TEST_F(CommRun, RefusesWrongVariables) {
  const auto refused = [this](const std::string& name, const std::string& value) {
    program.environment = {{name, value}};
    const ProgramResult result = program.run(comm({"--force"}));
    EXPECT_EQ(result.exit_code, 2) << name;
    return result.err;
  };
  EXPECT_THAT(refused("DDPBENCH_SIZES", "4X"), HasSubstr("--sizes=4X: "));
  EXPECT_THAT(refused("DDPBENCH_OPS", "reduce"), HasSubstr("Did you mean 'DDPBENCH_OP'?"));
  EXPECT_THAT(refused("DDPBENCH_TIMEOUT", "soon"), HasSubstr("DDPBENCH_TIMEOUT: expected"));
  EXPECT_THAT(refused("DDPBENCH_GPUS", "1"), HasSubstr("--ranks=1"));
  // Variables of other commands are known, and have no effect.
  program.environment = {{"DDPBENCH_OP", "no such"}, {"DDPBENCH_SIZES", "4K"}};
  EXPECT_EQ(program.run({"data", "list"}).exit_code, 0);
  program.environment = {{"DDPBENCH_STRATEGY", "ddp"}, {"DDPBENCH_SIZES", "4K"}};
  EXPECT_EQ(program.run(comm({})).exit_code, 0);
}

TEST_F(CommRun, KeepsAnExistingReport) {
  program.write("report.json", "{}");
  const ProgramResult result = program.run(comm({"--sizes=4K"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(program.read("report.json"), "{}");
  EXPECT_EQ(program.run(comm({"--sizes=4K", "--force"})).exit_code, 0);
  EXPECT_EQ(program.report()["status"], "ok");
}

TEST_F(CommRun, RefusesWhatItDoesNotKnow) {
  for (const char* wrong : {"--op=all_reduse", "--sizes=4X", "--sizes=2", "--ranks=1", "--type=fp8",
                            "--redop=min", "--mode=fibre", "--iteration=3"}) {
    const ProgramResult result = program.run({"comm", wrong, "--json=never.json"});
    EXPECT_EQ(result.exit_code, 2) << wrong;
    EXPECT_FALSE(result.err.empty()) << wrong;
  }
  EXPECT_EQ(program.run({"comm", "--device=cpu", "--backend=nccl"}).exit_code, 3);
  EXPECT_EQ(program.read("never.json"), "");
}

// The process of a rank; 0 while there is none.
int process_of_rank(const Program& program, const std::string& rank) {
  for (const int pid : program.processes()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    for (std::string variable; std::getline(file, variable, '\0');) {
      if (variable == "RANK=" + rank) return pid;
    }
  }
  return 0;
}

void signal_rank(const Program& program, const std::string& rank, int number) {
  EXPECT_TRUE(Program::wait_until([&] { return process_of_rank(program, rank) != 0; }));
  ::kill(process_of_rank(program, rank), number);
}

TEST_F(CommRun, NamesARankThatWasKilled) {
  const ProgramResult result =
      program.run(endless(), [&](int) { signal_rank(program, "1", SIGKILL); });
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(program.processes().empty());
  const json report = program.report();
  EXPECT_EQ(report["status"], "failed");
  EXPECT_EQ(report["error"]["kind"], "signal");
  EXPECT_EQ(report["error"]["rank"], 1);
  EXPECT_EQ(report["error"]["signal"], SIGKILL);
}

TEST_F(CommRun, NamesARankThatStalls) {
  const ProgramResult result =
      program.run(endless({"--timeout=2"}), [&](int) { signal_rank(program, "1", SIGSTOP); });
  EXPECT_EQ(result.exit_code, 4) << result.err;
  const json report = program.report();
  EXPECT_EQ(report["error"]["rank"], 1);
  EXPECT_EQ(report["error"]["kind"], "stalled");
}

TEST_F(CommRun, LeavesAPartialReportWhenInterrupted) {
  const ProgramResult result = program.run(endless(), [&](int pid) {
    EXPECT_TRUE(Program::wait_until([&] { return process_of_rank(program, "1") != 0; }));
    ::kill(pid, SIGINT);
  });
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_TRUE(program.processes().empty());
  EXPECT_EQ(program.report()["status"], "interrupted");
}

}  // namespace
}  // namespace ddpbench
