// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench check`: its options, exit codes and files.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "bench/commands/subcommand.h"
#include "reports/json/report_json.h"
#include "tests/reports/gate_support.h"

namespace ddpbench::bench {
namespace {

using report::test::gate_report;
using report::test::steady;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A report is no copy of another one that was measured at another time.
report::Report measured_later(report::Report report) {
  report.started_at = "2026-03-04T05:06:07Z";
  return report;
}

// Reports in a folder of their own, and the command on them.
class CheckCommand : public testing::Test {
 protected:
  CheckCommand() {
    std::string name = (std::filesystem::temp_directory_path() / "check-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    write("base.json", gate_report(steady()));
    write("same.json", measured_later(gate_report(steady())));
    write("slow.json", gate_report(steady(1.2)));
    write("noisy.json", gate_report({0.01, 0.03, 0.02, 0.015, 0.028}));
  }
  ~CheckCommand() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const report::Report& report) const {
    report::write_report(report, path(name), true);
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }

  // Returns the exit code; out_ is what was printed.
  int check(const std::string& candidate, std::vector<std::string> more = {},
            const std::string& base = "base.json") {
    std::vector<std::string> words = {path(candidate), "--baseline", path(base)};
    words.insert(words.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    int code = -1;
    try {
      code = run_subcommand(*find_subcommand("check"), words);
    } catch (...) {
      out_ = testing::internal::GetCapturedStdout();
      throw;
    }
    out_ = testing::internal::GetCapturedStdout();
    return code;
  }
  std::string refusal(const std::string& candidate, const std::vector<std::string>& more) {
    try {
      check(candidate, more);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  std::filesystem::path folder_;
  std::string out_;
};

TEST_F(CheckCommand, EndsWithTheExitCodeOfTheVerdict) {
  EXPECT_EQ(check("same.json"), 0);
  EXPECT_THAT(out_, HasSubstr("PASS: 1 pair compared"));
  EXPECT_EQ(check("slow.json"), 6);
  EXPECT_EQ(check("base.json", {}, "slow.json"), 0);
  EXPECT_THAT(out_, HasSubstr("IMPROVED"));
  EXPECT_EQ(check("noisy.json"), 7);
}

TEST_F(CheckCommand, JudgesCollectivesByTheSameRules) {
  const auto several = [this](const std::string& name, double factor) {
    std::vector<std::string> paths;
    for (const double median_s : steady(factor)) {
      paths.push_back(path(fmt::format("{}-{}.json", name, paths.size())));
      const report::Report measured = report::test::collective_report(median_s);
      report::write_report(name == "comm-base" ? measured : measured_later(measured), paths.back(),
                           true);
    }
    return paths;
  };
  const auto judged = [](std::vector<std::string> words, const std::vector<std::string>& base) {
    words.emplace_back("--baseline");
    words.insert(words.end(), base.begin(), base.end());
    testing::internal::CaptureStdout();
    const int code = run_subcommand(*find_subcommand("check"), words);
    return std::pair(code, testing::internal::GetCapturedStdout());
  };
  const auto base = several("comm-base", 1);
  EXPECT_EQ(judged(several("comm-same", 1), base).first, 0);
  const auto [code, text] = judged(several("comm-slow", 1.2), base);
  EXPECT_EQ(code, 6);
  EXPECT_THAT(text, HasSubstr("REGRESSED all_reduce, 2 ranks, 4 KiB"));
  EXPECT_EQ(judged({path("comm-slow-0.json")}, {path("comm-base-0.json")}).first, 7);
}

TEST_F(CheckCommand, PutsARegressionBeforeWhatIsInconclusive) {
  report::Report candidate = gate_report(steady(1.2)), base = gate_report(steady());
  for (const double median_s : {0.01, 0.03, 0.02}) {
    report::Run run = report::test::gate_run(median_s);
    run.world_size = 4;
    candidate.runs.push_back(run);
    base.runs.push_back(run);
  }
  write("both.json", candidate);
  write("both_base.json", base);
  EXPECT_EQ(check("both.json", {}, "both_base.json"), 6);
  EXPECT_THAT(out_, HasSubstr("1 REGRESSED, 1 INCONCLUSIVE"));
}

TEST_F(CheckCommand, TakesSharesInPerCentAndAsFractions) {
  EXPECT_EQ(check("slow.json", {"--max-slowdown=25%", "--max-p95-slowdown=0.25"}), 0);
  EXPECT_EQ(check("slow.json", {"--max_slowdown=0.25", "--max-p95-slowdown=25%"}), 0);
  EXPECT_EQ(check("slow.json", {"--max-slowdown=150%", "--max-p95-slowdown=150%"}), 0);
  for (const char* wrong : {"", "%", "0", "0%", "-1%", "5", "nan", "inf", "1e999", "5%%", "five"}) {
    EXPECT_THAT(refusal("same.json", {fmt::format("--max-slowdown={}", wrong)}),
                HasSubstr("--max-slowdown"));
  }
  EXPECT_THAT(refusal("same.json", {"--max-slowdown=5"}),
              AllOf(HasSubstr("--max-slowdown: expected"), HasSubstr("2% or 0.02")));
  EXPECT_THAT(refusal("same.json", {"--alpha=0.5"}), HasSubstr("--alpha: expected a share"));
}

TEST_F(CheckCommand, RefusesSettingsThatDifferUnlessAllowed) {
  report::Report candidate = gate_report(steady());
  for (report::Run& run : candidate.runs) {
    run.device_model = "Other";
    run.optimizer["lr"] = 0.5;
  }
  write("other.json", candidate);
  EXPECT_THAT(refusal("other.json", {}),
              AllOf(HasSubstr("device_model: new Other, baseline Imaginary 9000"),
                    HasSubstr("--allow-mismatch=device_model,optimizer/lr")));
  EXPECT_THAT(refusal("other.json", {"--allow-mismatch=lr"}), HasSubstr("device_model"));
  EXPECT_EQ(check("other.json", {"--allow-mismatch=lr,device_model"}), 0);
  EXPECT_EQ(check("other.json", {"--allow-mismatch=lr", "--allow-mismatch=device_model"}), 0);
  EXPECT_THAT(refusal("other.json", {"--allow-mismatch=divice_model"}),
              HasSubstr("Did you mean 'device_model'?"));
}

TEST_F(CheckCommand, RefusesWhenNothingIsPaired) {
  report::Report candidate = gate_report(steady());
  for (report::Run& run : candidate.runs) run.world_size = 8;
  write("eight.json", candidate);
  EXPECT_THAT(refusal("eight.json", {}), HasSubstr("nothing to compare"));
}

// CI servers take a line that begins with "::" for a command, whoever printed it.
TEST_F(CheckCommand, PrintsNamesOfFilesOnTheirLine) {
  report::Report owned = measured_later(gate_report(steady(1.2)));
  for (report::Run& run : owned.runs) run.strategy = "ddp\n::error::owned\u009b31m\u202e";
  write("owned.json", owned);
  EXPECT_THAT(refusal("owned.json", {}), HasSubstr("new ddp ::error::owned 31m , 2 devices"));
  owned = measured_later(gate_report(steady(1.2)));
  for (report::Run& run : owned.runs) {
    run.precision = "fp32\n::error::owned";
    run.strategy_options["x\n::error::y"] = "1";
  }
  write("owned.json", owned);
  EXPECT_THAT(refusal("owned.json", {}),
              AllOf(HasSubstr("new fp32 ::error::owned"), Not(HasSubstr("\n::"))));
  const std::string allowed = "--allow-mismatch=precision,strategy_options";
  for (const char* format : {"table", "github", "markdown", "json", "junit"}) {
    EXPECT_EQ(check("owned.json", {allowed, "--format", format}), 6);
    EXPECT_THAT(out_, AllOf(HasSubstr("REGRESSED"), Not(HasSubstr("\n::error::")))) << format;
  }
}

TEST_F(CheckCommand, RefusesTheSameFileTwiceOnOneSide) {
  std::filesystem::create_symlink(path("same.json"), path("link.json"));
  EXPECT_THAT(refusal("same.json", {path("base.json")}), HasSubstr("given twice"));
  EXPECT_THAT(refusal("slow.json", {path("same.json"), path("link.json")}),
              HasSubstr("given twice"));
}

TEST_F(CheckCommand, RefusesTheSameFileOnBothSides) {
  std::filesystem::create_hard_link(path("base.json"), path("link.json"));
  std::filesystem::copy_file(path("base.json"), path("copy.json"));
  for (const char* candidate : {"base.json", "link.json", "copy.json"}) {
    EXPECT_THAT(refusal(candidate, {}),
                HasSubstr(path(candidate) + " or a copy of it is given as new and as baseline"));
  }
  EXPECT_THAT(refusal("same.json", {path("slow.json"), path("same.json")}),
              HasSubstr("same.json or a copy of it is given as new and as baseline"));
}

TEST_F(CheckCommand, RefusesReportsThatCannotBeRead) {
  EXPECT_THAT(refusal("absent.json", {}), HasSubstr("absent.json"));
  std::ofstream(path("cut.json")) << read("base.json").substr(0, 300);
  EXPECT_THAT(refusal("cut.json", {}), HasSubstr("cut.json"));
}

TEST_F(CheckCommand, WritesEveryFormat) {
  const std::pair<const char*, const char*> formats[] = {{"table", "REGRESSED ddp"},
                                                         {"markdown", "### "},
                                                         {"json", "{\n  \"check_schema_version\""},
                                                         {"junit", "<?xml"},
                                                         {"github", "::error title=ddpbench ddp"}};
  for (const auto& [format, begin] : formats) {
    EXPECT_EQ(check("slow.json", {std::string("--format=") + format}), 6);
    EXPECT_THAT(out_, StartsWith(begin));
  }
  EXPECT_THAT(refusal("slow.json", {"--format=jnit"}), HasSubstr("Did you mean 'junit'?"));
}

TEST_F(CheckCommand, WritesAFileOnceUnlessForced) {
  const std::vector<std::string> to_file = {"--format=junit", "-o", path("result.xml")};
  EXPECT_EQ(check("slow.json", to_file), 6);
  EXPECT_THAT(read("result.xml"), StartsWith("<?xml"));
  EXPECT_THAT(out_, AllOf(StartsWith("REGRESSED: 1 pair"), HasSubstr("result.xml")));
  EXPECT_THAT(refusal("same.json", to_file), HasSubstr("exists"));
  EXPECT_THAT(read("result.xml"), HasSubstr("<failure"));
  auto forced = to_file;
  forced.emplace_back("--force");
  EXPECT_EQ(check("same.json", forced), 0);
  EXPECT_THAT(read("result.xml"), testing::Not(HasSubstr("<failure")));
}

// A file of an earlier check would pass for the result of this one.
TEST_F(CheckCommand, LeavesItsFileAlsoWhereNothingCanBeCompared) {
  report::Report other = gate_report(steady());
  for (report::Run& run : other.runs) run.precision = "bf16";
  write("other.json", other);
  for (const char* format : {"table", "markdown", "json", "junit", "github"}) {
    const std::vector<std::string> to_file = {std::string("--format=") + format, "-o",
                                              path("result"), "--force"};
    EXPECT_EQ(check("slow.json", to_file), 6);
    EXPECT_THAT(read("result"), HasSubstr("REGRESSED"));
    for (const char* candidate : {"other.json", "absent.json"}) {
      refusal(candidate, to_file);
      EXPECT_THAT(read("result"), testing::Not(HasSubstr("REGRESSED"))) << format;
      EXPECT_THAT(read("result"),
                  HasSubstr(std::string(candidate) == "absent.json" ? "absent.json" : "precision"));
    }
  }
  refusal("other.json", {"--format=junit", "-o", path("result")});  // it exists
  EXPECT_THAT(read("result"), StartsWith("::error"));
}

TEST_F(CheckCommand, PrintsTheRefusalForPrograms) {
  report::Report other = gate_report(steady());
  for (report::Run& run : other.runs) run.precision = "bf16";
  write("other.json", other);
  refusal("other.json", {"--format=json"});
  EXPECT_THAT(out_, HasSubstr("\"verdict\": \"NOT_COMPARED\""));
  refusal("other.json", {});
  EXPECT_EQ(out_, "");
}

TEST_F(CheckCommand, NeedsNewReportsAndABaseline) {
  const SubcommandEntry& entry = *find_subcommand("check");
  EXPECT_THROW(run_subcommand(entry, {path("base.json")}), ConfigError);
  EXPECT_THROW(run_subcommand(entry, {"--baseline", path("base.json")}), ConfigError);
  EXPECT_THROW(run_subcommand(entry, {path("base.json"), "--basline", "x"}), ConfigError);
}

}  // namespace
}  // namespace ddpbench::bench
