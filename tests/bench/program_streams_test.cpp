// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Standard input and output, and pipes, in the place of files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "reports/json/report_json.h"
#include "tests/bench/program.h"
#include "tests/reports/sample_report.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Streams : public testing::Test {
 protected:
  Streams() {
    program.write("lenet.json", test::small_config({}));
    report::write_report(report::test::sample_report(), program.path("a.json"), false);
  }

  // Runs the program with the file as its standard input.
  ProgramResult run_reading(const std::string& name, const std::vector<std::string>& arguments) {
    const std::string path = program.path(name);
    program.prepare = [path] {
      const int file = ::open(path.c_str(), O_RDONLY);
      ::dup2(file, STDIN_FILENO);
    };
    return program.run(arguments);
  }
  // Runs the program while `text` is written to the named pipe "pipe".
  ProgramResult run_with_pipe(const std::string& text, const std::vector<std::string>& arguments) {
    EXPECT_EQ(::mkfifo(program.path("pipe").c_str(), 0600), 0);
    return program.run(arguments, [&](int) { std::ofstream(program.path("pipe")) << text; });
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(program.path(name)); }

  Program program;
};

constexpr const char* kStepTimes[] = {
    "step,seconds\n0,0.01\n1,0.02\n",
    "\n{\"step\": 0, \"seconds\": 0.01}\n{\"step\": 1, \"seconds\": 0.02}\n",
};

class ImportStream : public Streams, public testing::WithParamInterface<const char*> {};

// Without a name, what it begins with tells csv from JSON lines.
TEST_P(ImportStream, ReadsStepTimesAndWritesTheReport) {
  program.write("times", GetParam());
  const ProgramResult result = run_reading("times", {"import", "-", "--as=mine", "-o", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("mine"), HasSubstr("report: standard output")));
  program.write("piped.json", result.out);
  EXPECT_EQ(program.report("piped.json")["runs"][0]["step"]["count"], 2);
  EXPECT_FALSE(exists("-.json"));
}

TEST_P(ImportStream, ReadsThemFromAPipe) {
  const ProgramResult result =
      run_with_pipe(GetParam(), {"import", "pipe", "--as=mine", "--output=piped.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(program.report("piped.json")["runs"][0]["step"]["count"], 2);
}

INSTANTIATE_TEST_SUITE_P(Formats, ImportStream, testing::ValuesIn(kStepTimes),
                         [](const auto& format) {
                           return std::string(format.index == 0 ? "Csv" : "JsonLines");
                         });

class ReportStream : public Streams, public testing::WithParamInterface<const char*> {};

TEST_P(ReportStream, HasTheReportAloneAndStderrTheRest) {
  const ProgramResult result =
      program.run({"--strategy=single,ddp", "--gpus=2", "--config=lenet.json",
                   std::string("--json=") + GetParam()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  program.write("out.json", result.out);
  const json report = program.report("out.json");
  EXPECT_EQ(report["status"], "ok");
  EXPECT_EQ(report["runs"].size(), 2u);
  EXPECT_THAT(result.err, AllOf(HasSubstr("\nddp"), HasSubstr("report: standard output")));
  EXPECT_FALSE(exists("-"));
}

INSTANTIATE_TEST_SUITE_P(Any, ReportStream, testing::Values("-", "/dev/stdout"),
                         [](const auto& p) { return p.index == 0 ? "Dash" : "Device"; });

TEST_F(Streams, AnInterruptedReportIsWrittenToStandardOutputToo) {
  const ProgramResult result = program.run(
      {"--strategy=ddp", "--gpus=2", "--config=lenet.json", "--json=-", "--repetitions=1000"},
      [&](int pid) {
        EXPECT_TRUE(Program::wait_until([&] { return program.processes().size() >= 3; }));
        ::kill(pid, SIGTERM);
      });
  EXPECT_EQ(result.exit_code, 130) << result.err;
  program.write("out.json", result.out);
  EXPECT_EQ(program.report("out.json")["status"], "interrupted");
  EXPECT_THAT(result.err, HasSubstr("--resume=REPORT.json"));
}

TEST_F(Streams, AReportThatNobodyWantsGoesToTheNullDevice) {
  const ProgramResult result =
      program.run({"--strategy=single", "--config=lenet.json", "--json=/dev/null"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(Streams, AReportThatCannotBeWrittenFailsTheCommand) {
  program.stdout_path = "/dev/full";
  const ProgramResult result =
      program.run({"--strategy=single", "--config=lenet.json", "--json=-"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
}

TEST_F(Streams, OtherFilesThanTheReportAreNotMadeUnderADash) {
  for (const char* option : {"--trace=-", "--save-model=-"}) {
    const ProgramResult result =
        program.run({"--strategy=single", "--config=lenet.json", "--json=r.json", option});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("standard output"));
  }
  EXPECT_FALSE(exists("-") || exists("r.json"));
}

TEST_F(Streams, ReportsAreReadFromStandardInput) {
  const ProgramResult file = program.run({"show", "a.json"});
  const ProgramResult stream = run_reading("a.json", {"show", "-"});
  EXPECT_EQ(stream.exit_code, 0) << stream.err;
  EXPECT_EQ(stream.out, file.out);
  EXPECT_EQ(run_reading("a.json", {"show", "/dev/stdin"}).out, file.out);
  const ProgramResult twice = run_reading("a.json", {"show", "-", "-"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("only once"));
}

TEST_F(Streams, ReportsAreReadFromPipes) {
  const ProgramResult file = program.run({"show", "a.json", "--columns=strategy,step"});
  const ProgramResult piped =
      run_with_pipe(program.read("a.json"), {"show", "pipe", "--columns=strategy,step"});
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(piped.out, file.out);
}

TEST_F(Streams, WrongInputIsNamed) {
  const ProgramResult result = run_reading("lenet.json", {"show", "-"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("standard input"));
}

TEST_F(Streams, PagesAndTablesGoToStandardOutput) {
  const ProgramResult page = program.run({"html", "a.json", "-o", "-"});
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out, AllOf(StartsWith("<!DOCTYPE html>"), Not(HasSubstr("\npage: "))));
  EXPECT_EQ(program.run({"show", "a.json", "-o", "-"}).out, program.run({"show", "a.json"}).out);
  EXPECT_FALSE(exists("-"));
  const ProgramResult unnamed = run_reading("a.json", {"html", "-"});
  EXPECT_EQ(unnamed.exit_code, 2);
  EXPECT_THAT(unnamed.err, HasSubstr("--output"));
}

TEST_F(Streams, ConfigurationsAreReadFromStandardInputAndPipes) {
  const ProgramResult dash =
      run_reading("lenet.json", {"--strategy=single", "--config=-", "--json=dash.json"});
  ASSERT_EQ(dash.exit_code, 0) << dash.err;
  EXPECT_EQ(program.report("dash.json")["config"]["batch_size"], 8);
  const ProgramResult pipe = run_with_pipe(
      test::small_config({}), {"--strategy=single", "--config=pipe", "--json=pipe.json"});
  ASSERT_EQ(pipe.exit_code, 0) << pipe.err;
  EXPECT_EQ(program.report("pipe.json")["runs"][0]["model"], "lenet5");
  const ProgramResult wrong = run_reading("a.json", {"--config=-"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("standard input: /"));
}

TEST_F(Streams, AReportToResumeFromAPipeNeedsAPlaceForTheNewOne) {
  const ProgramResult made = program.run(test::small_run("single"));
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::vector<std::string> again = {"--strategy=single", "--config=lenet.json", "--resume=-"};
  const ProgramResult refused = run_reading("report.json", again);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("name with --json where the report goes"));
  std::vector<std::string> named = again;
  named.emplace_back("--json=-");
  const ProgramResult resumed = run_reading("report.json", named);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(json::parse(resumed.out)["runs"].size(), 1u);
}

}  // namespace
}  // namespace ddpbench
