// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

Report interrupted(std::vector<std::string> argv) {
  Report report = test::report_of({test::sample_run("ddp", 2, 6000)});
  report.status = Status::interrupted;
  report.argv = std::move(argv);
  return report;
}

TEST(Interruption, IsSaidOfNoOtherReport) {
  EXPECT_EQ(interruption_lines(test::sample_report(), "a.json", 80), "");
}

TEST(Interruption, TellsHowToGoOn) {
  EXPECT_EQ(interruption_lines(interrupted({"ddpbench", "--strategy=dp,ddp"}), "a.json", 0),
            "a.json was interrupted: it lacks the runs that were not made; the same command with "
            "--resume=a.json in place of --json makes them\n");
}

// --resume would begin a run anew that has a file of its state.
TEST(Interruption, NamesTheOptionThatTakesACheckpoint) {
  Report report = interrupted({"ddpbench", "--strategy=ddp", "--checkpoint=c.safetensors"});
  report.runs[0].checkpoints.push_back({.step = 50});
  EXPECT_EQ(interruption_lines(report, "a.json", 0),
            "a.json was interrupted: it lacks the runs that were not made; the same command with "
            "its --checkpoint as --resume-training and another --json goes on\n");
}

TEST(Interruption, CannotResumeOtherCommands) {
  const std::string words = "a.json was interrupted: it lacks the runs that were not made\n";
  EXPECT_EQ(interruption_lines(interrupted({"ddpbench", "tune", "--gpus=2"}), "a.json", 0), words);
}

}  // namespace
}  // namespace ddpbench::report
