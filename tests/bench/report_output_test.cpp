// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/report_output.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
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
