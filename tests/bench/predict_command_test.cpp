// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls `ddpbench predict` as a user does; tests/reports/prediction_test.cpp has its figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/commands/subcommand.h"
#include "reports/json/report_json.h"
#include "tests/bench/options_test_support.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

using report::Report;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PredictCommand : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const Report& report) const {
    std::string path = directory_.path() + "/" + name;
    write_report(report, path, false);
    return path;
  }
  // Returns what the command prints.
  std::string predict(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), measured_);
    ::testing::internal::CaptureStdout();
    const int code = run_subcommand(predict_entry(), arguments);
    std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0);
    return text;
  }
  // Returns the one sentence with which it is refused.
  std::string refused(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), measured_);
    std::string message =
        message_of<ConfigError>([&] { run_subcommand(predict_entry(), arguments); });
    EXPECT_THAT(message, AllOf(HasSubstr("predict: "), Not(HasSubstr("\n")), Not(HasSubstr(". "))));
    return message;
  }

  TemporaryDirectory directory_;
  std::string measured_ = write("r.json", report::test::sample_report());
  std::string comm_ = write("comm.json", report::test::collective_report(0.001, {4096, 1 << 20}));
};

TEST_F(PredictCommand, PrintsARowForEachNumberOfDevices) {
  EXPECT_THAT(predict({"--gpus=4,1024", "--link=25Gbit,50us", "--price=2.5/h"}),
              AllOf(HasSubstr("\nddp "), HasSubstr(" 1024 "), HasSubstr("price\n"),
                    HasSubstr("transfers over links of 25Gbit,50us."),
                    HasSubstr("at 2.5 an hour and device.")));
  EXPECT_THAT(predict({"--gpus=4", "--comm=" + comm_}), HasSubstr("comm.json."));
}

TEST_F(PredictCommand, WritesAReportThatNoCheckTakesForMeasured) {
  const std::string file = directory_.path() + "/p.json";
  EXPECT_THAT(predict({"--gpus=4", "--link=1Gbit,1us", "--json=" + file}),
              HasSubstr("report: " + file));
  const Report report = report::read_report(file);
  EXPECT_TRUE(report.runs.at(0).predicted);
  EXPECT_EQ(report.argv[1], "predict");
  EXPECT_THAT(message_of<ConfigError>([&] {
                run_subcommand(predict_entry(), {measured_, "--gpus=4", "--json=" + file});
              }),
              HasSubstr("p.json exists already"));
  EXPECT_THAT(refused({"--gpus=4", "--force", "--json=" + measured_}),
              HasSubstr("r.json: that is one of the reports to read"));
  EXPECT_THAT(refused({"--gpus=4", "--force", "--comm=" + comm_, "--json=" + comm_}),
              HasSubstr("comm.json: that is one of the reports to read"));
  for (const auto& sides : {std::pair(file, measured_), std::pair(measured_, file)}) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  run_subcommand(check_entry(), {sides.first, "--baseline", sides.second});
                }),
                HasSubstr("p.json holds predictions; give what was measured"));
  }
}

TEST_F(PredictCommand, RefusesWhatItCannotPredict) {
  EXPECT_THAT(refused({}), HasSubstr("--gpus is missing"));
  for (const char* count : {"0", "-4", "4x", "65537", "2.5"}) {
    EXPECT_THAT(refused({std::string("--gpus=4,") + count}),
                HasSubstr("predict: --gpus: expected a whole number from 1 to 65536"));
  }
  for (const char* price : {"-1", "cheap", "2.5/day", "nan"}) {
    EXPECT_THAT(refused({"--gpus=4", std::string("--price=") + price}),
                HasSubstr("expected the price of a device for an hour, as 2.5/h"));
  }
  EXPECT_THAT(refused({"--gpus=4", "--link=fast"}), HasSubstr("--link=fast: no link; write it as"));
  EXPECT_THAT(refused({"--gpus=4", "--link=1Gbit,1us", "--comm=" + comm_}),
              HasSubstr("--comm and --link exclude each other"));
  EXPECT_THAT(refused({"--gpus=4", "--comm=" + measured_}),
              HasSubstr("r.json has no all-reduce between several ranks"));
  EXPECT_THAT(refused({measured_, "--gpus=4"}), HasSubstr("several reports; give one"));
}

}  // namespace
}  // namespace ddpbench::bench
