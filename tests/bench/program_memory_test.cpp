// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs on CPU devices that may have less memory than their plan needs.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <iterator>
#include <sstream>

#include "tests/bench/joined_ranks.h"
#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using testing::HasSubstr;

// Processes that start while this object lives may map only so much memory.
class AddressSpace {
 public:
  explicit AddressSpace(rlim_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~AddressSpace() { ::setrlimit(RLIMIT_AS, &before_); }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

 private:
  rlimit before_{};
};

class SmallMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers map more address space than any limit here";
#endif
    program.write("lenet.json", test::small_config({.steps = 1, .verify_steps = 0}));
  }
  test::ProgramResult run(const std::string& strategy, std::vector<std::string> more) {
    const AddressSpace limited(rlim_t{1} << 30);
    more.insert(more.end(), {"--device=cpu", "--force"});
    return program.run(test::small_run(strategy, more));
  }
  // The number behind "the largest that fits is <option>="; 0: it is not told.
  static int largest(const std::string& message, const std::string& option) {
    const std::string words = "the largest that fits is " + option + "=";
    const auto at = message.find(words);
    return at == std::string::npos ? 0 : std::stoi(message.substr(at + words.size()));
  }
  // `told` fits and `next` does not.
  void expect_limit(const std::string& strategy, const std::string& option, int told, int next,
                    const std::string& more) {
    const auto with = [&](int batch) {
      return run(strategy, {option + "=" + std::to_string(batch), "--dry-run", more});
    };
    const auto fits = with(told);
    EXPECT_EQ(fits.exit_code, 0) << told << ": " << fits.err;
    const auto refused = with(next);
    EXPECT_EQ(refused.exit_code, 2) << next << ": " << refused.err;
    EXPECT_EQ(largest(refused.err, option), told) << refused.err;
  }
  test::Program program;
};

class LimitedMemory : public SmallMemory, public testing::WithParamInterface<const char*> {};

TEST_P(LimitedMemory, IsCheckedBeforeAnythingIsAllocated) {
  const auto fits = run(GetParam(), {"--batch-size=16"});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  const auto refused = run(GetParam(), {"--batch-size=60000"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr(" with a batch of 60000 per device needs "));
  // Limits of address space apply to single processes, and only dp has its devices in one process.
  const std::string shared = std::string(GetParam()) == "dp" ? ", or fewer devices (--gpus)" : "";
  EXPECT_THAT(refused.err, HasSubstr(" free; use a smaller --batch-size" + shared + "; the "));
  EXPECT_THAT(refused.err, HasSubstr(")\n  weights  "));
  EXPECT_THAT(refused.err, HasSubstr("\n  input  "));
  const nlohmann::json report = program.report();
  EXPECT_EQ(report.at("error").at("kind"), "config");
  EXPECT_THAT(report.at("error").at("message").get<std::string>(),
              HasSubstr("; the largest that fits is --batch-size="));
}

TEST_P(LimitedMemory, IsRefusedWithTheLargestBatchThatFits) {
  const auto refused = run(GetParam(), {"--batch-size=60000", "--dry-run"});
  const int told = largest(refused.err, "--batch-size");
  ASSERT_GT(told, 0) << refused.err;
  EXPECT_THAT(refused.err,
              testing::ContainsRegex(", in steps of 8 \\(ended by .*, mostly [a-z]+\\)"));
  expect_limit(GetParam(), "--batch-size", told, told + 8, "--verify-steps=0");
}

INSTANTIATE_TEST_SUITE_P(Strategies, LimitedMemory, testing::Values("single", "dp", "ddp", "ps"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(SmallMemory, TellsTheLargestGlobalBatchWhereThatIsChosen) {
  const auto refused = run("ddp", {"--global-batch-size=80000", "--dry-run"});
  const int told = largest(refused.err, "--global-batch-size");
  ASSERT_GT(told, 0) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr(", in steps of 16 (ended by "));
  expect_limit("ddp", "--global-batch-size", told, told + 16, "--verify-steps=0");
}

// The reference has the batches of all devices on one.
TEST_F(SmallMemory, TellsTheLargestBatchOfTheReferenceToo) {
  const auto refused = run("ddp", {"--batch-size=60000", "--verify-steps=1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the reference to verify against failed: "));
  EXPECT_GT(largest(refused.err, "--batch-size"), 0) << refused.err;
  // A real run maps the reference's weights as well.
  const auto rehearsed = run("ddp", {"--batch-size=60000", "--verify-steps=1", "--dry-run"});
  const int told = largest(rehearsed.err, "--batch-size");
  ASSERT_GT(told, 0) << rehearsed.err;
  expect_limit("ddp", "--batch-size", told, told + 8, "--verify-steps=1");
}

TEST_F(SmallMemory, SaysWhereNoBatchFits) {
  program.write("wide.json", R"({"name": "wide", "input": [1, 28, 28], "layers": [
      {"name": "fc", "type": "linear", "out_features": 200000}]})");
  nlohmann::json config = nlohmann::json::parse(program.read("lenet.json"));
  config["model"] = "wide.json";
  program.write("lenet.json", config.dump());
  const auto refused = run("single", {"--batch-size=16"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("; no batch fits, not even --batch-size=1 (ended by the "
                                     "device, mostly "));
}

// A launcher's ranks cannot plan beside each other: they name the command that does.
TEST_F(SmallMemory, NamesTheCommandThatPlansWhereALauncherStartsTheRanks) {
  std::vector<test::ProgramResult> results;
  {
    const AddressSpace limited(rlim_t{1} << 30);
    results = program.run_together({"--strategy=ddp", "--config=lenet.json", "--json=report.json",
                                    "--device=cpu", "--batch-size=60000"},
                                   test::world(2, test::free_port()));
  }
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 2) << result.err;
  const std::string message = program.report().at("error").at("message");
  const auto begin = message.find("; `ddpbench fit "), end = message.find("` finds the largest");
  ASSERT_NE(begin, std::string::npos) << message;
  ASSERT_NE(end, std::string::npos) << message;
  std::istringstream command(message.substr(begin + 3, end - begin - 3));
  std::vector<std::string> arguments{std::istream_iterator<std::string>(command), {}};
  EXPECT_THAT(arguments, testing::IsSupersetOf({"--config=lenet.json", "--strategy=ddp", "--gpus=2",
                                                "--device=cpu"}));
  arguments.erase(arguments.begin());  // the program
  const auto planned = program.run(arguments);
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("ended by")) << planned.err;
}

}  // namespace
}  // namespace ddpbench
