// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/report_output.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "bench/plan/training_checkpoint.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

TEST(CompleteReport, AnswersWhatFitsTheMemoryOfADevice) {
  report::Report report = report::test::report_of(
      {report::test::sample_run("single", 1, 7000), report::test::sample_run("ddp", 2, 10000)});
  Options options;
  options.memory_per_device = "64MiB";
  complete_report(report, options);
  ASSERT_FALSE(report.answer.empty());
  EXPECT_EQ(report.answer.back(), "Fastest that fits 64 MiB: ddp on 2 devices, 40 MiB a device.");
}

// Of commands that start together with --force, each sees no report or the same old one.
class ReservedReport : public testing::TestWithParam<bool> {
 protected:
  ReservedReport()
      : path_(testing::TempDir() + "ddpbench-reserved-" + std::to_string(::getpid()) + ".json") {
    std::filesystem::remove(path_);
    options_.json_path = path_;
    options_.force = true;
  }
  ~ReservedReport() override { std::filesystem::remove(path_); }
  std::string path_;
  Options options_;
};

TEST_P(ReservedReport, IsLeftAloneByOthersAlsoWithForce) {
  const bool existed = GetParam();
  if (existed) ddpbench::write_file(path_, "old");
  ReportOutput second(options_);
  {
    ReportOutput first(options_);
    first.reserve({}, options_);
    EXPECT_TRUE(std::filesystem::exists(path_));
    EXPECT_EQ(ddpbench::read_file(path_, {.most_bytes = 1 << 20}) == "old", existed);
    EXPECT_THAT([&] { second.reserve({}, options_); },
                testing::ThrowsMessage<ConfigError>(testing::HasSubstr("another ddpbench")));
  }
  EXPECT_NO_THROW(second.reserve({}, options_)) << "the first is over";
}

INSTANTIATE_TEST_SUITE_P(, ReservedReport, testing::Bool(),
                         [](const auto& p) { return p.param ? "ThatExisted" : "ThatIsNew"; });

TEST(ReservedReports, OfOneNameInTwoFoldersDoNotMeet) {
  const std::filesystem::path before = std::filesystem::current_path();
  Options options;
  options.json_path = "report.json";
  options.force = true;
  std::vector<std::unique_ptr<ReportOutput>> writing;
  for (const char* name : {"one", "two"}) {
    const auto folder =
        std::filesystem::path(testing::TempDir()) / fmt::format("ddpbench-{}-{}", name, ::getpid());
    std::filesystem::create_directory(folder);
    std::filesystem::current_path(folder);
    writing.push_back(std::make_unique<ReportOutput>(options));
    EXPECT_NO_THROW(writing.back()->reserve({}, options)) << name;
    std::filesystem::current_path(before);
    std::filesystem::remove_all(folder);
  }
}

TEST(CheckpointFile, IsReplacedWhereTrainingGoesOnFromItByWhateverName) {
  const std::string folder = testing::TempDir() + fmt::format("ddpbench-c-{}/", ::getpid());
  std::filesystem::create_directory(folder);
  for (const char* name : {"c", "other"}) ddpbench::write_file(folder + name, "old");
  Options options;
  options.json_path = folder + "report.json";
  options.checkpoint = folder + "./c";
  options.resume_training = folder + "c";
  EXPECT_TRUE(replaces_checkpoint(options));
  EXPECT_NO_THROW(ReportOutput{options});
  options.resume_training = folder + "other";
  EXPECT_FALSE(replaces_checkpoint(options));
  EXPECT_THAT([&] { ReportOutput{options}; },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("--force")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ddpbench::bench
