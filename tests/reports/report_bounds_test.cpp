// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Hostile files: which are refused, at which place, with a short message. tests/fuzz/corpus has
// more of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/error.h"
#include "reports/json/report_json.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::refusal;
using test::refusal_with;

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

template <typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return test::kNothingThrown;
}

// The sample report with more keys at the beginning of its configuration.
std::string with_config(const std::string& members) {
  std::string text = to_json(test::sample_report()).dump();
  const std::string begin = R"("config":{)";
  return text.insert(text.find(begin) + begin.size(), fmt::format("{},", members));
}

// A path in the temporary folder that is free before and after.
class Path {
 public:
  explicit Path(const char* name) : path_(fs::path(::testing::TempDir()) / name) {
    fs::remove(path_);
  }
  ~Path() { fs::remove(path_); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  std::string string() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(ReportBounds, APipeIsReadToItsEnd) {
  const Path path("ddpbench_report_pipe");
  ASSERT_EQ(::mkfifo(path.string().c_str(), 0600), 0);
  const auto read_what_comes = [&](const std::string& text) {
    std::jthread writer([&] { std::ofstream(path.string()) << text; });
    return message_of([&] { read_report(path.string()); });
  };
  EXPECT_EQ(read_what_comes(to_json(test::sample_report()).dump()), test::kNothingThrown);
  EXPECT_THAT(read_what_comes("{\n}}"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(read_what_comes(""), HasSubstr("it is empty"));
}

TEST(ReportBounds, AHugeFileIsRefusedBeforeItIsRead) {
  const Path path("ddpbench_report_huge");
  std::ofstream(path.string()).put('{');
  fs::resize_file(path.string(), std::uintmax_t{3} << 30);  // a hole: takes no space
  EXPECT_THAT(message_of([&] { read_report(path.string()); }), HasSubstr("larger than 512 MiB"));
}

TEST(ReportBounds, AFileThatMayNotBeReadIsNamedWithTheReason) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const Path path("ddpbench_report_secret");
  std::ofstream(path.string()).put('{');
  ASSERT_EQ(::chmod(path.string().c_str(), 0), 0);
  EXPECT_THAT(message_of([&] { read_report(path.string()); }), HasSubstr("Permission denied"));
}

TEST(ReportBounds, AByteOrderMarkIsPassedOver) {
  EXPECT_EQ(refusal(fmt::format("\xef\xbb\xbf{}", to_json(test::sample_report()).dump())),
            test::kNothingThrown);
}

TEST(ReportBounds, SyntaxErrorsHaveLineColumnAndPointer) {
  EXPECT_THAT(refusal("{\"a\": 1,\n \"runs\": [1, 2, }"),
              HasSubstr("report some.json: not valid JSON: line 2, column 17, in /runs/1: "));
  EXPECT_EQ(refusal(""), "report some.json: it is empty");
  EXPECT_THAT(refusal(std::string("{\n}\0{}", 6)), HasSubstr("line 2, column 2"));
}

TEST(ReportBounds, NumbersBeyondEveryFieldAreRefusedWithTheirPlace) {
  EXPECT_THAT(refusal(with_config(R"("a": 1e999)")),
              AllOf(HasSubstr("column"), HasSubstr("in /config/a:"), HasSubstr("1e999")));
  EXPECT_EQ(refusal(with_config(R"("a": [0, 18446744073709551616])")),
            "report some.json: /config/a/1: the integer 18446744073709551616 does not fit 64 bits");
  EXPECT_EQ(refusal(with_config(R"("a": 18446744073709551615)")), test::kNothingThrown);
}

TEST(ReportBounds, AKeyThatIsThereTwiceIsRefused) {
  EXPECT_EQ(refusal(with_config(R"("a": {"b": 1, "\u0062": 2})")),
            "report some.json: /config/a: the key \"b\" is there twice");
}

TEST(ReportBounds, NestingIsFollowedTo64Levels) {
  const auto nested = [](std::size_t levels) {
    return refusal(with_config(
        fmt::format(R"("a": {}{})", std::string(levels, '['), std::string(levels, ']'))));
  };
  EXPECT_EQ(nested(62), test::kNothingThrown);
  EXPECT_THAT(nested(63), HasSubstr("nested deeper than 64 levels"));
}

TEST(ReportBounds, ManyMembersAreRefused) {
  ordered_json members = ordered_json::object();
  for (int i = 0; i < 1001; ++i) members[std::to_string(i)] = i;
  EXPECT_THAT(refusal_with("/environment/libraries", members),
              HasSubstr("/environment/libraries: an object of more than 1000 members"));
}

TEST(ReportBounds, MessagesAreShortAndDoNotSpeakToTheTerminal) {
  const std::string key = fmt::format("\x1b[2J{:k<5000}", "");
  ordered_json document = to_json(test::sample_report());
  document["runs"][0]["phases"][key] = "fast";
  EXPECT_THAT(refusal(document.dump()),
              AllOf(HasSubstr("/runs/0/phases/ [2Jkkk"), HasSubstr("kkk... (5004 bytes)"),
                    Not(HasSubstr("\x1b")), SizeIs(testing::Lt(300u))));
  EXPECT_THAT(refusal_with("/runs/0/status", std::string(5000, 's')), SizeIs(testing::Lt(300u)));
  EXPECT_THAT(refusal(fmt::format("{{\"{:k<5000}\": fast}}", "")), SizeIs(testing::Lt(700u)));
}

TEST(ReportBounds, ValuesThatWouldBreakArithmeticAreRefused) {
  EXPECT_EQ(refusal_with("/runs/1/world_size", 0),
            "report some.json: /runs/1/world_size: 0 is out of range, 1 to 100000");
  EXPECT_THAT(refusal_with("/runs/1/world_size", 1e300), HasSubstr("expected an integer"));
  EXPECT_THAT(refusal_with("/runs/1/accumulation_steps", 0), HasSubstr("out of range"));
  EXPECT_THAT(refusal_with("/runs/1/threads_per_device", 0), HasSubstr("out of range"));
  EXPECT_THAT(refusal_with("/runs/1/per_device_batch_size", -64), HasSubstr("out of range"));
  EXPECT_THAT(refusal_with("/runs/1/step/count", -1), HasSubstr("out of range"));
  EXPECT_EQ(refusal_with("/runs/1/step/samples_s/2", -0.5),
            "report some.json: /runs/1/step/samples_s/2: -0.5 is negative");
  EXPECT_THAT(refusal_with("/runs/1/step/time_s/median", -1), HasSubstr("is negative"));
  EXPECT_THAT(refusal_with("/runs/1/step/samples_s/2", 1e200), HasSubstr("too large"));
  EXPECT_THAT(refusal_with("/runs/1/step/samples_s/2", 1e-200), HasSubstr("too close to 0"));
  EXPECT_THAT(refusal_with("/runs/1/phases/comm_s", -1),
              HasSubstr("/phases/comm_s: -1 is negative"));
  EXPECT_EQ(refusal_with("/runs/1/optimizer/momentum", -0.5), test::kNothingThrown);
}

TEST(ReportBounds, ReasonsThatMustBeThereAreNotEmpty) {
  EXPECT_THAT(refusal_with("/runs/5/reason", ""), HasSubstr("/runs/5/reason: expected a text"));
  EXPECT_THAT(refusal_with("/error/message", ""), HasSubstr("/error/message: expected a text"));
}

}  // namespace
}  // namespace ddpbench::report
