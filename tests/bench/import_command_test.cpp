// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench import`, and histories of what it made, as a user calls them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using test::Program;
using test::ProgramResult;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// Five repetitions of 20 steps of a trainer whose steps take `step_s`.
std::string times_of(double step_s) {
  std::string text = "repetition,step,seconds,loss\n";
  for (int repetition = 0; repetition < 5; ++repetition) {
    for (int step = 0; step < 20; ++step) {
      const double noise = 1 + 0.002 * ((repetition * 7 + step * 3) % 5);
      text += fmt::format("{},{},{},{}\n", repetition, step, step_s * noise, 2.0 - 0.01 * step);
    }
  }
  return text;
}

class ImportCommand : public testing::Test {
 protected:
  ImportCommand() {
    program.write("base.csv", times_of(0.010));
    program.write("slow.csv", times_of(0.012));
  }
  ProgramResult import(const std::string& file, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"import", file, "--as=ddp", "--model=mine",
                                          "--batch-size=32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program.run(arguments);
  }
  Program program;
};

TEST_F(ImportCommand, MakesReportsThatTheOtherCommandsRead) {
  const ProgramResult made = import("base.csv", {"--commit=aaaaaaaaaaaa", "--warmup-steps=2",
                                                 "--measured-at=2026-01-31T12:00:00Z"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out,
            "ddp, 1 device, 5 repetitions of 18 steps: 10.04 ms a step (10.04 to 10.04), "
            "3187 samples/s\n"
            "report: base.json\n"
            "next: ddpbench check NEW.json --baseline base.json\n");
  const auto report = program.report("base.json");
  EXPECT_EQ(report["runs"].size(), 5u);
  EXPECT_EQ(report["runs"][0]["step"]["count"], 18);
  EXPECT_EQ(report["started_at"], "2026-01-31T12:00:00Z");
  EXPECT_EQ(report["finished_at"], "2026-01-31T12:00:00Z");
  EXPECT_EQ(report["runs"][0]["device"], "unknown");
  EXPECT_TRUE(report["runs"][0]["device_model"].is_null());
  ASSERT_EQ(import("slow.csv", {"--commit=bbbbbbbbbbbb", "--warmup-steps=2",
                                "--measured-at=2026-02-01T12:00:00Z"})
                .exit_code,
            0);
  const ProgramResult worse = program.run({"check", "slow.json", "--baseline", "base.json"});
  EXPECT_EQ(worse.exit_code, 6) << worse.err;
  EXPECT_THAT(worse.out,
              AllOf(HasSubstr("20.0 % slower"), HasSubstr("measured 24.0 h after the baseline: ")));
  EXPECT_EQ(program.run({"show", "base.json", "slow.json"}).exit_code, 0);
  EXPECT_EQ(program.run({"chart", "base.json", "--kind=steps", "-o", "a.svg"}).exit_code, 0);
  EXPECT_EQ(program.run({"html", "base.json", "slow.json", "-o", "page.html"}).exit_code, 0);
  EXPECT_THAT(program.read("page.html"), HasSubstr("Over commits"));
  const ProgramResult history = program.run({"show", "base.json", "slow.json", "--format=history"});
  EXPECT_THAT(history.out, AllOf(HasSubstr("\naaaaaaaaaaaa "), HasSubstr("\nbbbbbbbbbbbb "),
                                 HasSubstr("+20.0 %")));
}

// When the files were written says nothing of when their runs were made, as these took turns.
TEST_F(ImportCommand, ClaimsNoTimeThatNobodyTold) {
  ASSERT_EQ(import("base.csv", {"--commit=bbbbbbbbbbbb"}).exit_code, 0);
  ASSERT_EQ(import("slow.csv", {"--commit=aaaaaaaaaaaa"}).exit_code, 0);
  EXPECT_TRUE(program.report("base.json")["started_at"].is_null());
  for (const char* format : {"table", "github", "junit"}) {
    const ProgramResult judged =
        program.run({"check", "slow.json", "--baseline", "base.json", "--format", format});
    EXPECT_EQ(judged.exit_code, 6) << judged.err;
    EXPECT_THAT(judged.out, AllOf(testing::Not(HasSubstr("were measured")),
                                  testing::Not(HasSubstr("timestamp=\"\""))));
  }
  const ProgramResult history = program.run({"show", "slow.json", "base.json", "--format=history"});
  EXPECT_LT(history.out.find("\naaaaaaaaaaaa "), history.out.find("\nbbbbbbbbbbbb "));
  EXPECT_THAT(history.out, HasSubstr("in the order in which their reports were given"));
}

TEST_F(ImportCommand, TellsJUnitWhatTheStepsTook) {
  ASSERT_EQ(import("base.csv").exit_code, 0);
  ASSERT_EQ(import("slow.csv").exit_code, 0);
  const ProgramResult judged =
      program.run({"check", "slow.json", "--baseline", "base.json", "--format=junit"});
  EXPECT_THAT(judged.out, testing::ContainsRegex("<testsuite [^>]*time=\"1\\.2"));  // 100 of 12 ms
}

TEST_F(ImportCommand, MakesADivergedRunThatAllCommandsRead) {
  std::string times = times_of(0.010);
  times.replace(times.rfind(',') + 1, std::string::npos, "nan\n");
  program.write("nan.csv", times);
  EXPECT_EQ(program.run({"import", "nan.csv", "--as=mine"}).exit_code, 0);
  EXPECT_EQ(program.report("nan.json")["runs"][4]["status"], "diverged");
  EXPECT_THAT(program.run({"show", "nan.json"}).out, HasSubstr("diverged"));
  EXPECT_EQ(program.run({"html", "nan.json", "-o", "page.html"}).exit_code, 0);
  ASSERT_EQ(program.run({"import", "base.csv", "--as=mine"}).exit_code, 0);
  const ProgramResult judged = program.run({"check", "nan.json", "--baseline", "base.json"});
  EXPECT_EQ(judged.exit_code, 6) << judged.out << judged.err;
}

TEST_F(ImportCommand, CountsNoRepetitionThatDivergedAsShowDoes) {
  program.write("one.csv", "repetition,step,ms,loss\n0,0,12,2\n0,1,10,1.5\n1,0,14,2\n1,1,11,nan\n");
  EXPECT_THAT(program.run({"import", "one.csv", "--as=mine", "--batch-size=8"}).out,
              HasSubstr("mine, 1 device, 1 repetition of 2 steps: 11.00 ms a step, 727 samples/s; "
                        "1 of 2 repetitions left\n  out, as training diverged\n"));
  EXPECT_THAT(program.run({"show", "one.json"}).out, HasSubstr(" 11.00 "));
  program.write("all.csv", "step,ms,loss\n0,12,nan\n");
  EXPECT_THAT(program.run({"import", "all.csv", "--as=mine"}).out,
              HasSubstr("mine, 1 device, 1 of 1 repetition left out, as training diverged\n"));
}

TEST_F(ImportCommand, ShowsNoFigureThatNobodyTold) {
  const ProgramResult made = program.run({"import", "base.csv", "--as=mine"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, testing::Not(AnyOf(HasSubstr("samples/s"), HasSubstr("--repetitions"))));
  EXPECT_THAT(program.run({"show", "base.json", "--full"}).out,
              AllOf(testing::Not(HasSubstr("0/0")), testing::Not(HasSubstr("--steps"))));
  EXPECT_EQ(program.run({"chart", "base.json", "--kind=steps", "-o", "steps.svg"}).exit_code, 0);
  EXPECT_THAT(program.read("steps.svg"),
              AllOf(HasSubstr("mine"), testing::Not(HasSubstr("batch 0"))));
  EXPECT_EQ(program.run({"html", "base.json", "-o", "page.html"}).exit_code, 0);
  EXPECT_THAT(program.read("page.html"), testing::Not(HasSubstr("batch 0")));
}

TEST_F(ImportCommand, RecordsAGpuTrainerNotAsThisProcessor) {
  ASSERT_EQ(import("base.csv", {"--device=cuda", "--device-model=H100"}).exit_code, 0);
  EXPECT_EQ(program.report("base.json")["runs"][0]["device_model"], "H100");
  EXPECT_THAT(program.run({"show", "base.json"}).out, HasSubstr("cuda (H100)"));
  ASSERT_EQ(import("slow.csv").exit_code, 0);
  EXPECT_EQ(program.report("slow.json")["runs"][0]["device_model"], nullptr);
  EXPECT_THAT(program.run({"show", "slow.json"}).out,
              testing::Not(AnyOf(HasSubstr("unknown device"), HasSubstr("weak scaling"),
                                 HasSubstr("thread a device"), HasSubstr("fp32"))));
  ASSERT_EQ(import("slow.csv", {"--device=cpu", "--force"}).exit_code, 0);
  EXPECT_THAT(program.report("slow.json")["runs"][0]["device_model"].get<std::string>(),
              testing::Not(testing::IsEmpty()));
}

TEST_F(ImportCommand, TakesTheFilesOfBenchmarkTools) {
  program.write("hyperfine.json", R"({"results": [{"command": "train\u001b[31m", "times": [30, 31]},
    {"command": "other", "times": [1]}]})");
  const ProgramResult made = program.run({"import", "hyperfine.json"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("train [31m, 1 device, 2 repetitions of 1 step: 30500 ms a step "
                              "(30000 to 31000)"),
                    HasSubstr("call that column ms"),
                    HasSubstr("other, 1 device, 1 repetition of 1 step: 1000 ms a step\n"),
                    HasSubstr("report: hyperfine.report.json\n")));
  EXPECT_EQ(program.report("hyperfine.report.json")["runs"].size(), 3u);
  const ProgramResult named = program.run({"import", "hyperfine.json", "--as=ddp", "--force"});
  EXPECT_THAT(named.err, HasSubstr("names one program and the file several; leave it out"));
  program.write("steps.log", "step,seconds,\u202ex\n0,1,1\n");
  EXPECT_THAT(program.run({"import", "steps.log", "--as=ddp"}).out,
              HasSubstr("not read:  x, which"));
  EXPECT_EQ(program.report("steps.json")["runs"].size(), 1u);
}

TEST_F(ImportCommand, DrawsTheMemoryThatItWasTold) {
  program.write("memory.csv", "step,seconds,memory\n0,0.01,1048576\n1,0.01,2097152\n");
  ASSERT_EQ(program.run({"import", "memory.csv", "--as=mine"}).exit_code, 0);
  const ProgramResult drawn = program.run({"chart", "memory.json", "--kind=memory", "-o", "m.svg"});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
  EXPECT_THAT(program.read("m.svg"), AllOf(HasSubstr("not split"), HasSubstr("2.00\u00a0MiB")));
}

TEST_F(ImportCommand, RefusesWhatIsMissingOrWrong) {
  const auto refusal = [this](const std::vector<std::string>& arguments) {
    const ProgramResult result = program.run(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(refusal({"import", "base.csv"}), HasSubstr("--as is missing"));
  EXPECT_THAT(refusal({"import", "absent.csv", "--as=x"}), HasSubstr("absent.csv"));
  EXPECT_THAT(refusal({"import", "base.csv", "slow.csv", "--as=x"}), HasSubstr("one file"));
  EXPECT_THAT(refusal({"import", "base.csv", "--as=x", "--device=gpu"}), HasSubstr("--device"));
  EXPECT_THAT(refusal({"import", "base.csv", "--as=x", "--batch-size=0"}), HasSubstr("from 1 to"));
  EXPECT_THAT(refusal({"import", "base.csv", "--as=x", "--commit=main"}), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal({"import", "base.csv", "--as=x", "--measured-at=2026-1-31T12:00:00Z"}),
              HasSubstr("2026-01-31T12:00:00Z"));
  EXPECT_THAT(refusal({"import", "-", "--as=x"}),
              HasSubstr("standard input has no name for what is written"));
  program.write("base.json", "mine");
  EXPECT_THAT(refusal({"import", "base.csv", "--as=x"}), HasSubstr("exists"));
  EXPECT_EQ(program.read("base.json"), "mine");
}

}  // namespace
}  // namespace ddpbench
