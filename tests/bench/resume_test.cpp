// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_source.h"
#include "bench/run/report_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "bench/options/option_table.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

report::Report report_of(const std::vector<std::string>& arguments) {
  report::Report report;
  report.generator.version = "1.0";
  report.environment.hosts = {"node"};
  report.environment.cpu.model = "Imaginary 9000";
  report.environment.libraries = {{"oneDNN", "2.6"}};
  report.config_json = to_json(options_of(arguments)).dump();
  return report;
}

TEST(Resume, AllowsTheSameExperiment) {
  EXPECT_THAT(resume_differences(report_of({"--gpus=2"}), report_of({"--gpus=2"})), IsEmpty());
}

TEST(Resume, IsOfReportsOfRunsThatTheCommandStarted) {
  const auto refusal = [](auto change) {
    report::Report report = report_of({"--gpus=2"});
    report.argv = {"ddpbench", "--gpus=2"};
    change(report);
    try {
      check_has_runs_to_resume(report, "a.json");
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_THAT(refusal([](auto& report) { report.collectives.emplace_back(); }),
              HasSubstr("--resume=a.json: it is a report of `ddpbench comm`"));
  EXPECT_THAT(refusal([](auto& report) { report.tune.emplace(); }), HasSubstr("`ddpbench tune`"));
  EXPECT_THAT(refusal([](auto& report) {
                report.argv = {"ddpbench", "import", "a.csv"};
              }),
              HasSubstr("`ddpbench import`"));
  EXPECT_EQ(refusal([](auto& report) { report.environment.launcher = "srun"; }), "");
}

TEST(Resume, AllowsWhatChangesNoRun) {
  EXPECT_THAT(resume_differences(
                  report_of({"--json=a.json"}),
                  report_of({"--resume=a.json", "--repetitions=5", "--quiet", "--until-ci=2%",
                             "--order=sequential", "--trace=t.json", "--trace-steps=7"})),
              IsEmpty());
}

TEST(Resume, IsFreeInNoOtherOption) {
  std::set<std::string> free;
  for (const OptionDefinition& option : option_table()) {
    if (option.has(kFreeOnResume)) free.insert(option.name);
  }
  EXPECT_EQ(free,
            (std::set<std::string>{"config", "json", "resume", "force", "quiet", "repetitions",
                                   "order", "until-ci", "max-repetitions", "max-minutes", "dry-run",
                                   "data-dir", "timeout", "trace", "trace-steps", "verbose"}));
}

TEST(Resume, NamesWhatDiffersInTheConfiguration) {
  EXPECT_THAT(
      resume_differences(report_of({"--lr=0.1", "--steps=5"}), report_of({"--lr=0.2"})),
      ElementsAre("/config/optimizer/lr was 0.1, is 0.2", "/config/steps was 5, is not set"));
}

TEST(Resume, NamesWhatDiffersInTheEnvironment) {
  report::Report other = report_of({});
  other.environment.cpu.model = "Imaginary 10000";
  other.environment.libraries["oneDNN"] = "3.0";
  other.environment.variables["OMP_NUM_THREADS"] = "4";
  other.environment.variables["DDPBENCH_EPOCHS"] = "1";  // in the configuration already
  other.generator.version = "1.1";
  EXPECT_THAT(resume_differences(report_of({}), other),
              ElementsAre(HasSubstr("/cpu/model was \"Imaginary 9000\", is \"Imaginary 10000\""),
                          HasSubstr("oneDNN"), HasSubstr("OMP_NUM_THREADS was not set, is \"4\""),
                          HasSubstr("/generator/version")));
}

TEST(Resume, RefusesWithTheFileAndEverythingThatDiffers) {
  EXPECT_THAT(
      message_of([] {
        check_resumable(report_of({"--seed=1"}), report_of({"--seed=2", "--epochs=3"}), "old.json");
      }),
      AllOf(HasSubstr("old.json"), HasSubstr("/seed"), HasSubstr("/epochs")));
}

}  // namespace
}  // namespace ddpbench::bench
