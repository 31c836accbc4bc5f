// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs on CPU devices that may have less memory than their plan needs.
#include <gmock/gmock.h>
#include <sys/resource.h>

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
  test::Program program;
};

// The reference's 12 steps of SimpleCNN are 40 MB of shared memory, which each rank reads.
TEST_F(SmallMemory, HasPeaksOfTrainingAlone) {
  const auto peaks_of = [this](const char* verify) {
    const auto result = program.run(test::small_run(
        "ddp", {"--model=simple_cnn", "--batch-size=8", verify, "--device=cpu", "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json memory = program.report()["runs"][0]["devices"][1]["memory"];
    return std::pair<double, double>(memory["process_peak_rss_bytes"], memory["peak_bytes"]);
  };
  const auto alone = peaks_of("--verify-steps=0"), verified = peaks_of("--verify-steps=12");
  constexpr double kMegabyte = 1e6;
  EXPECT_GT(alone.first, 10 * kMegabyte);
  EXPECT_NEAR(verified.first, alone.first, 20 * kMegabyte);
  EXPECT_NEAR(verified.second, alone.second, 0.1 * kMegabyte);
}

class LimitedMemory : public SmallMemory, public testing::WithParamInterface<const char*> {};

TEST_P(LimitedMemory, IsCheckedBeforeAnythingIsAllocated) {
  const auto fits = run(GetParam(), {"--batch-size=16"});
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  const auto refused = run(GetParam(), {"--batch-size=60000"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr(" with a batch of 60000 per device needs "));
  // Limits of address space apply to single processes, and only dp has its devices in one process.
  const std::string shared = std::string(GetParam()) == "dp" ? ", or fewer devices (--gpus)" : "";
  EXPECT_THAT(refused.err,
              HasSubstr(" free; use a smaller --batch-size" + shared + "\n  weights  "));
  EXPECT_THAT(refused.err, HasSubstr("\n  input  "));
  const nlohmann::json report = program.report();
  EXPECT_EQ(report.at("error").at("kind"), "config");
}

INSTANTIATE_TEST_SUITE_P(Strategies, LimitedMemory, testing::Values("single", "dp", "ddp", "ps"),
                         [](const auto& test) { return std::string(test.param); });

// The reference has the batches of all devices on one.
TEST_F(SmallMemory, RefusesWhatTheReferenceHasNoRoomFor) {
  const auto refused = run("ddp", {"--batch-size=60000", "--verify-steps=1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the reference to verify against failed: "));
}

}  // namespace
}  // namespace ddpbench
