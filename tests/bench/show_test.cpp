// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench show` as a user calls it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <sstream>

#include "reports/data/report.h"
#include "reports/json/report_json.h"
#include "tests/bench/program.h"
#include "tests/bench/sentences.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench {
namespace {

using test::Program;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Show : public testing::Test {
 protected:
  Show() { report::write_report(report::test::sample_report(), program.path("a.json"), false); }

  // Returns the output of `show a.json` with these arguments behind it.
  ProgramResult show(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"show", "a.json"});
    return program.run(arguments);
  }
  void expect_refusal(const std::vector<std::string>& arguments, const std::string& message) {
    const ProgramResult result = show(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(StartsWith("ddpbench: show: "), HasSubstr(message)));
    EXPECT_EQ(result.out, "");
  }

  Program program;
};

TEST_F(Show, PrintsTheTableAgain) {
  const ProgramResult result = show({});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("dp on 2 devices: 1.62 times the samples/s of one device"));
  EXPECT_THAT(result.out, HasSubstr("\n\nstrategy  devices  step ms  samples/s"));
  EXPECT_THAT(show({"--full"}).out, HasSubstr("batch each/all"));
}

TEST_F(Show, IsAsWideAsColumnsSaysWhereThereIsNoTerminal) {
  const auto widest = [](const std::string& text) {
    std::size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
    return most;
  };
  EXPECT_GT(widest(show({}).out), 72U);
  program.environment["COLUMNS"] = "72";
  EXPECT_LE(widest(show({}).out), 72U);
  program.environment["COLUMNS"] = "many";
  EXPECT_GT(widest(show({}).out), 72U);
  EXPECT_LE(widest(show({}).out), 100U);
}

TEST_F(Show, MergesReportsIntoOneTable) {
  report::write_report(report::test::sample_report(), program.path("b.json"), false);
  const ProgramResult result = show({"b.json"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("\na.json  single"), HasSubstr("\nb.json  single")));
}

TEST_F(Show, ChoosesRunsByDevicesBatchAndAnySetting) {
  const std::string two = show({"--gpus=2", "--columns=strategy,devices", "--format=csv"}).out;
  EXPECT_THAT(two, AllOf(HasSubstr("ddp,2"), Not(HasSubstr("single,1"))));
  EXPECT_EQ(show({"--where=precision=fp32", "--format=csv"}).out, show({"--format=csv"}).out);
  expect_refusal({"--gpus=77"}, "--gpus: expected one of 1, 2, 4, 8, got");
  expect_refusal({"--where=precision=fp3"}, "Did you mean 'precision=fp32'?");
}

TEST_F(Show, ShowsChosenColumnsAndRuns) {
  EXPECT_EQ(show({"--columns=strategy,devices,device_model", "--strategy=dp", "--status=ok",
                  "--format=csv"})
                .out,
            "strategy,world_size,servers,oversubscribed,predicted,device_model,missing\n"
            "dp,2,0,false,false,Imaginary 9000,\n");
}

TEST_F(Show, KnowsColumnsByTheirKeysToo) {
  EXPECT_EQ(show({"--columns=step-time-p95-s", "--format=csv", "--strategy=single"}).out,
            "step_time_p95_s,missing\n0.0209,\n");
}

TEST_F(Show, CondensesRepetitionsUnlessAskedForAll) {
  report::Report report = report::test::report_of({});
  for (int i = 0; i < 7; ++i) {
    report.runs.push_back(report::test::sample_run("ddp", 2, 6000));
    report.runs.back().repetition = i;
    report.runs.back().step.time_s->median = 0.020 + 0.001 * i;
  }
  report::write_report(report, program.path("r.json"), false);
  const auto out = [this](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"show", "r.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return program.run(arguments).out;
  };
  EXPECT_THAT(out({"--full"}),
              testing::ContainsRegex("ddp +2 +7 +64/128 +23.00 +1.00 +21.00..25.00 "));
  EXPECT_THAT(out({"--repetitions=all"}), testing::ContainsRegex("ddp +2 +7 +64/128 +26.00 "));
  const std::vector<std::string> csv = {"--columns=strategy,repetitions", "--format=csv"};
  EXPECT_EQ(out(csv), "strategy,repetitions,timed_repetitions,missing\nddp,7,7,\n");
  EXPECT_EQ(nlohmann::json::parse(out({"--format=json"})).size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(out({"--format=json", "--repetitions=all"})).size(), 7u);
  expect_refusal({"--repetitions=al"}, "Did you mean 'all'?");
  expect_refusal({"--repetitions=all", "--format=github-benchmark"},
                 "--repetitions does not apply");
}

TEST_F(Show, RefusesForCollectivesWhatIsOfRuns) {
  report::write_report(report::test::collective_report(1e-3), program.path("comm.json"), false);
  for (const char* option : {"--columns=step", "--sort=step", "--repetitions=all", "--gpus=2"}) {
    const ProgramResult result = program.run({"show", "comm.json", option});
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_THAT(result.err, HasSubstr("does not apply: comm.json holds collectives")) << option;
  }
  EXPECT_EQ(program.run({"show", "comm.json", "a.json", "--gpus=2"}).exit_code, 0);
  const ProgramResult history = program.run({"show", "comm.json", "--format=history"});
  EXPECT_EQ(history.exit_code, 2);
  EXPECT_THAT(history.err, HasSubstr("comm.json holds collectives"));
}

TEST_F(Show, Sorts) {
  EXPECT_EQ(show({"--columns=rate", "--format=csv", "--sort=-rate", "--status=ok"}).out,
            "samples_per_s,missing\n6100.5,\n6000,\n5200,\n3200,\n");
}

TEST_F(Show, RefusesUnknownNamesWithTheNearest) {
  expect_refusal({"--columns=strategy,stpe"}, "got \"stpe\". Did you mean 'step'?");
  expect_refusal({"--sort=comn"}, "Did you mean 'comm'?");
  expect_refusal({"--format=markdwn"}, "Did you mean 'markdown'?");
  expect_refusal({"--status=fialed"}, "Did you mean 'failed'?");
  expect_refusal({"--strategy=pss"}, "Did you mean 'ps'?");
  expect_refusal({"--column=step"}, "Did you mean '--columns'?");
  expect_refusal({"--columns=step,step"}, "named twice");
  expect_refusal({"--columns=step", "--format=github-benchmark"}, "--columns does not apply");
  expect_refusal({"--format="}, "show: --format needs a value: --format=table");
  expect_refusal({"--sort=-"}, "show: --sort: expected one of");
}

TEST_F(Show, ListsItsColumnsWithoutAReport) {
  const ProgramResult result = program.run({"show", "--columns=help"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("+ step "));
  EXPECT_THAT(result.out, HasSubstr("[speedup_low, speedup_high]\n"));
  for (const char* added : {"  precision ", "  options ", "+ sync ", "  commit "}) {
    EXPECT_THAT(result.out, HasSubstr(added));
  }
  EXPECT_THAT(program.run({"show"}).err, HasSubstr("REPORT is missing"));
}

TEST_F(Show, LeavesTheExplanationOfRunsToWhy) {
  EXPECT_THAT(show({}).out, Not(HasSubstr("Why: ")));
  EXPECT_THAT(program.run({"why", "a.json"}).out, StartsWith("Why: "));
  EXPECT_THAT(program.run({"why", "a.json", "--strategy=single"}).out,
              StartsWith("no run on several devices"));
  report::write_report(report::test::sample_report(), program.path("b.json"), false);
  const ProgramResult both = program.run({"why", "a.json", "b.json", "--strategy=ddp"});
  EXPECT_THAT(both.out, AllOf(HasSubstr("Why: a.json: ddp on 2 devices"),
                              HasSubstr("\nWhy: b.json: ddp on 2 devices")));
}

TEST_F(Show, WritesAFileAndNeverOverOne) {
  ASSERT_EQ(show({"--format=json", "-o", "out.json"}).exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(program.read("out.json")).size(), 6u);
  const std::string before = program.read("out.json");
  const ProgramResult again = show({"-o", "out.json"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("out.json exists already"));
  EXPECT_EQ(program.read("out.json"), before);
  EXPECT_EQ(show({"--format=github-benchmark", "--output=out.json", "--force"}).exit_code, 0);
  EXPECT_THAT(program.read("out.json"), StartsWith("["));
  EXPECT_EQ(show({"-o", "nowhere/out.json"}).exit_code, 2);
  EXPECT_EQ(show({"--output="}).exit_code, 2);
  expect_refusal({"-o", "./a.json", "--force"}, "that is one of the reports to read");
}

TEST_F(Show, SaysThatAReportWasInterruptedAndHowToGoOn) {
  EXPECT_THAT(show({}).out, Not(HasSubstr("interrupted")));
  report::Report report = report::test::report_of({report::test::sample_run("ddp", 2, 6000)});
  report.status = report::Status::interrupted;
  report::write_report(report, program.path("cut.json"), false);
  for (const char* command : {"show", "chart"}) {
    const ProgramResult result = program.run({command, "cut.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("cut.json was interrupted: it lacks the runs"));
    EXPECT_THAT(result.out, HasSubstr("--resume=cut.json"));
  }
}

TEST_F(Show, AnswersAmongRunsOfEqualWork) {
  EXPECT_THAT(show({}).out, HasSubstr("(5200 against 3200"));
  report::write_report(report::test::report_of({report::test::sample_run("dp", 2, 5000),
                                                report::test::sample_run("ddp", 2, 5600)}),
                       program.path("two.json"), false);
  EXPECT_THAT(program.run({"show", "two.json"}).out,
              StartsWith("ddp or dp on 2 devices: 5600 and 5000 samples/s."));
}

TEST_F(Show, NamesTheFastestThatFitsTheMemoryOfADevice) {
  EXPECT_THAT(
      show({"--memory-per-device=64MiB"}).out,
      HasSubstr("\nFastest that fits 64 MiB: dp on 2 devices, 40 MiB a device.\n\nstrategy"));
  const ProgramResult wrong = show({"--memory-per-device=much"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("expected a size such as 16GiB"));
}

TEST_F(Show, NamesTheFileThatItCannotRead) {
  program.write("broken.json", program.read("a.json").substr(0, 500));
  for (const char* name : {"broken.json", "absent.json"}) {
    const ProgramResult result = show({name});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(name));
    EXPECT_EQ(result.out, "");
  }
}

TEST(Sentences, OfOutputAreCountedBetweenRests) {
  std::string words = "word";
  for (int i = 1; i < 25; ++i) words += " word";
  EXPECT_THAT(test::long_sentences_of_output("Why: " + words + ";\n    " + words + "\n" + words),
              testing::IsEmpty());
  EXPECT_EQ(test::long_sentences_of_output(words + "\n    more").size(), 1U);
  EXPECT_THAT(test::long_sentences_of_output(words + "  2  3\n"), testing::IsEmpty());
}

// What a first run and the commands after it print.
TEST_F(Show, AndWhatElsePrintsHasNoLongSentence) {
  program.write("lenet.json", test::small_config({.steps = 3, .verify_steps = 1}));
  const std::vector<std::string> dry = {"--config=lenet.json", "--dry-run", "--gpus=1,2"};
  std::vector<std::vector<std::string>> commands = {
      dry,
      {"tune", "--config=lenet.json", "--gpus=2", "--steps=2", "--repetitions=1", "--overlap=on",
       "--bucket-cap-mb=0.05", "--first-bucket-mb=0.01", "--confirm-repetitions=1",
       "--json=tune.json"},
      {"--config=lenet.json", "--strategy=single,dp,ddp", "--gpus=1,2", "--json=r.json", "-v"}};
  for (const std::string report : {"a.json", "r.json", "tune.json"}) {
    commands.insert(commands.end(), {{"show", report},
                                     {"show", report, "--full"},
                                     {"why", report},
                                     {"check", report, "--baseline", "r.json"}});
  }
  for (const auto& command : commands) {
    const ProgramResult result = program.run(command);
    EXPECT_NE(result.out + result.err, "");
    for (const std::string& text : {result.out, result.err})
      EXPECT_THAT(test::long_sentences_of_output(text), testing::IsEmpty())
          << testing::PrintToString(command);
  }
}

}  // namespace
}  // namespace ddpbench
