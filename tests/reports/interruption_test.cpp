// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/interruption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using testing::HasSubstr;

Report interrupted(std::vector<std::string> argv) {
  Report report = test::report_of({test::sample_run("ddp", 2, 6000)});
  report.status = Status::interrupted;
  report.argv = std::move(argv);
  return report;
}

TEST(Interruption, IsSaidOfNoOtherReport) {
  EXPECT_EQ(interruption_lines(test::sample_report(), "a.json", 80), "");
}

TEST(Interruption, TellsTheCommandThatGoesOn) {
  const Report report = interrupted({"./ddpbench", "--strategy=dp,ddp", "--json", "old.json",
                                     "--force", "--json=b.json", "--resume=c.json", "--steps=5"});
  EXPECT_EQ(resume_command(report, "a.json"),
            "./ddpbench --strategy=dp,ddp --steps=5 --resume=a.json");
  EXPECT_THAT(interruption_lines(report, "a.json", 30),
              HasSubstr("\n    ./ddpbench --strategy=dp,ddp --steps=5 --resume=a.json\n"));
}

TEST(Interruption, KeepsOptionsThatCameAsVariablesAndLeavesTheTrace) {
  Report report = interrupted({"ddpbench", "--trace=t.json", "--trace", "t.json", "--gpus=2"});
  report.environment.variables = {{"DDPBENCH_STEPS", "1000"},   {"DDPBENCH_DATA_DIR", "my data"},
                                  {"DDPBENCH_JSON", "b.json"},  {"DDPBENCH_FORCE", "1"},
                                  {"DDPBENCH_TRACE", "t.json"}, {"OMP_NUM_THREADS", "1"}};
  EXPECT_EQ(resume_command(report, "a.json"),
            "DDPBENCH_DATA_DIR='my data' DDPBENCH_STEPS=1000 ddpbench --gpus=2 --resume=a.json");
}

TEST(Interruption, QuotesWhatAShellWouldSplit) {
  EXPECT_EQ(resume_command(interrupted({"ddpbench", "--data-dir=my data", "--config=it's.json"}),
                           "a b.json"),
            "ddpbench '--data-dir=my data' '--config=it'\\''s.json' '--resume=a b.json'");
}

TEST(Interruption, OffersNoCommandThatWouldNotGoOn) {
  EXPECT_EQ(resume_command(interrupted({"ddpbench", "--config=-"}), "a.json"), "");
  EXPECT_EQ(resume_command(interrupted({"ddpbench", "--config", "-", "--gpus=2"}), "a.json"), "");
  EXPECT_EQ(resume_command(interrupted({"ddpbench", "--config=/dev/fd/63"}), "a.json"), "");
  Report by_variable = interrupted({"ddpbench"});
  by_variable.environment.variables = {{"DDPBENCH_CONFIG", "-"}};
  EXPECT_EQ(resume_command(by_variable, "a.json"), "");
  by_variable.argv.emplace_back("--config=c.json");
  EXPECT_NE(resume_command(by_variable, "a.json"), "");
  Report of_ranks = interrupted({"ddpbench", "--gpus=2"});
  of_ranks.environment.launcher = "mpirun";
  EXPECT_EQ(resume_command(of_ranks, "a.json"), "");
}

TEST(Interruption, CannotResumeOtherCommands) {
  const Report report = interrupted({"ddpbench", "tune", "--gpus=2"});
  EXPECT_EQ(resume_command(report, "a.json"), "");
  EXPECT_EQ(interruption_lines(report, "a.json", 0),
            "a.json was interrupted: it lacks the runs that were not made.\n");
}

}  // namespace
}  // namespace ddpbench::report
