// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "reports/data/report.h"
#include "reports/json/report_json.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class ReportWriter : public ::testing::Test {
 protected:
  ReportWriter() {
    std::string name = (fs::temp_directory_path() / "ddpbench-report-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    path_ = directory_ / "report.json";
  }
  ~ReportWriter() override { fs::remove_all(directory_); }

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  void put(const fs::path& path, const std::string& text) const { std::ofstream(path) << text; }
  // The message that the early check and the write both throw.
  std::string refusal(const fs::path& path, bool force) const {
    std::string early = message([&] { check_output_path(path, force); });
    EXPECT_EQ(message([&] { write_report(test::sample_report(), path, force); }), early);
    return early;
  }
  template <typename Call>
  static std::string message(const Call& call) {
    try {
      call();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  fs::path directory_, path_;
};

TEST_F(ReportWriter, WritesTheWholeReportAndLeavesNothingElse) {
  write_report(test::sample_report(), path_, false);
  EXPECT_EQ(nlohmann::ordered_json::parse(contents(path_)), to_json(test::sample_report()));
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReportWriter, WritesAKeyALineAndListsOfNumbersOnOne) {
  write_report(test::sample_report(), path_, false);
  const std::string text = contents(path_);
  EXPECT_THAT(text, HasSubstr("{\n  \"schema_version\": 1,\n  \"generator\": {\n"));
  EXPECT_THAT(text, HasSubstr("\n        \"samples_s\": [0.019, 0.02, 0.021]\n"));
  EXPECT_THAT(text, HasSubstr("\n      \"epochs\": [],\n"));
  EXPECT_TRUE(text.ends_with("}\n"));
}

TEST_F(ReportWriter, SurvivesTextThatIsNotUtf8) {
  Report report = test::sample_report();
  report.argv = {"ddpbench", "--config=\xff\xfe"};
  write_report(report, path_, false);
  EXPECT_TRUE(nlohmann::json::accept(contents(path_)));
}

TEST_F(ReportWriter, AcceptsANameWithoutADirectory) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_);
  write_report(test::sample_report(), "plain.json", false);
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(directory_ / "plain.json"));
}

TEST_F(ReportWriter, GivesTheFileTheUsualPermissions) {
  const mode_t mask = ::umask(022);
  write_report(test::sample_report(), path_, false);
  ::umask(mask);
  EXPECT_EQ(fs::status(path_).permissions(), static_cast<fs::perms>(0644));
}

TEST_F(ReportWriter, RefusesAnExistingFileAndKeepsIt) {
  put(path_, "precious");
  EXPECT_THAT(refusal(path_, false),
              AllOf(HasSubstr(path_.string()), HasSubstr("exists already"), HasSubstr("--force")));
  EXPECT_EQ(contents(path_), "precious");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReportWriter, ReplacesAnExistingFileWhenForced) {
  put(path_, "old");
  write_report(test::sample_report(), path_, true);
  EXPECT_TRUE(nlohmann::json::accept(contents(path_)));
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReportWriter, ForcedThroughALinkReplacesTheTargetAndKeepsTheLink) {
  const fs::path target = directory_ / "target.json";
  put(target, "old");
  fs::create_symlink(target, path_);
  EXPECT_THAT(refusal(path_, false), HasSubstr("exists already"));
  write_report(test::sample_report(), path_, true);
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_TRUE(nlohmann::json::accept(contents(target)));
}

TEST_F(ReportWriter, RefusesWhatIsNoRegularFileEvenWhenForced) {
  EXPECT_THAT(refusal(directory_, true), HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(refusal(path_, true), HasSubstr("not a regular file"));
  fs::create_symlink(directory_ / "nowhere", directory_ / "dangling");
  EXPECT_THAT(refusal(directory_ / "dangling", true), HasSubstr("No such file"));
}

TEST_F(ReportWriter, RefusesAnAbsentDirectoryAndAFileInItsPlace) {
  EXPECT_THAT(refusal(directory_ / "absent" / "report.json", false),
              AllOf(HasSubstr("its directory"), HasSubstr("No such file")));
  put(path_, "a file");
  EXPECT_THAT(refusal(path_ / "report.json", false), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal("", false), HasSubstr("is empty"));
}

TEST_F(ReportWriter, RefusesADirectoryThatCannotBeWritten) {
  if (::geteuid() == 0) {
    // Root may write everywhere but in /proc.
    EXPECT_THAT(message([] { write_report(test::sample_report(), "/proc/report.json", false); }),
                HasSubstr("cannot write /proc/report.json"));
    return;
  }
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(refusal(path_, false), HasSubstr("Permission denied"));
  fs::permissions(directory_, fs::perms::owner_all);
}

// Limits the size of files during its lifetime: writing then fails as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(ReportWriter, LeavesTheOldFileAndNoTemporaryOneWhenWritingFails) {
  put(path_, "old");
  {
    const FileSizeLimit limit(100);
    EXPECT_THAT(message([&] { write_report(test::sample_report(), path_, true); }),
                AllOf(HasSubstr("writing"), HasSubstr("File too large")));
  }
  EXPECT_EQ(contents(path_), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(ReportWriter, LeavesNothingWhenTheReportItselfIsWrong) {
  Report report = test::sample_report();
  report.runs[0].time.total_s = Figure::of(std::numeric_limits<double>::infinity());
  EXPECT_THROW(write_report(report, path_, false), InternalError);
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace ddpbench::report
