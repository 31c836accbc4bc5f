// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/options/options.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Injection injection(const std::string& text) { return parse_injection(text, "--inject"); }

TEST(Injections, EveryKindIsRead) {
  const Injection slow = injection("slow:rank=1,phase=backward,percent=12.5");
  EXPECT_EQ(slow.kind, "slow");
  EXPECT_EQ(slow.rank, 1);
  EXPECT_EQ(slow.step, -1);
  EXPECT_EQ(slow.phase, "backward");
  EXPECT_EQ(slow.percent, 12.5);
  for (const std::string kind : {"kill", "stop", "throw", "stale"}) {
    const Injection fault = injection(kind + ":step=5,rank=1");
    EXPECT_EQ(fault.kind, kind);
    EXPECT_EQ(fault.rank, 1);
    EXPECT_EQ(fault.step, 5);
  }
  EXPECT_EQ(injection("missing_bucket:bucket=2").bucket, 2);
  EXPECT_EQ(injection("stall:rank=1,step=5").ms, 0);
  EXPECT_EQ(injection("stall:rank=1,step=5,ms=30").ms, 30);
  EXPECT_EQ(injection("stall:rank=1,step=5,ms=0.5").ms, 0.5);
  EXPECT_EQ(injection("slow:rank=1,ms=20").ms, 20);
  EXPECT_EQ(injection("slow:phase=forward,ms=20").phase, "forward");
  EXPECT_EQ(injection("sum").rank, -1);
  EXPECT_EQ(injection("epoch").kind, "epoch");
}

TEST(Injections, TheTextIsKeptAsGiven) {
  EXPECT_EQ(injection("kill:step=5,rank=1").text, "kill:step=5,rank=1");
}

TEST(Injections, SeveralAreGivenByRepeatingTheFlagOrWithSemicolons) {
  const Options flags = options_of({"--inject=sum", "--inject", "kill:rank=0,step=1"});
  ASSERT_EQ(flags.injections.size(), 2U);
  EXPECT_EQ(flags.injections[1].kind, "kill");
  const Options variable = options_of({}, {{{"DDPBENCH_INJECT", "sum; kill:rank=0,step=1"}}});
  EXPECT_EQ(variable.injections, flags.injections);
}

struct BadInjection {
  std::string name, text, expected;
};

void PrintTo(const BadInjection& bad, std::ostream* out) { *out << bad.text; }

class RefusedInjection : public ::testing::TestWithParam<BadInjection> {};

TEST_P(RefusedInjection, IsNamedWithItsTextAndWhatIsWrong) {
  const BadInjection& bad = GetParam();
  EXPECT_THAT(message_of([&] { injection(bad.text); }),
              AllOf(HasSubstr("--inject"), HasSubstr(bad.text), HasSubstr(bad.expected)));
}

INSTANTIATE_TEST_SUITE_P(
    Injections, RefusedInjection,
    ::testing::Values(
        BadInjection{"UnknownKind", "kil:rank=1,step=5", "Did you mean 'kill'?"},
        BadInjection{"Nothing", "", "unknown fault"},
        BadInjection{"KeyOfAnotherKind", "kill:rank=1,step=5,percent=3", "got \"percent=3\""},
        BadInjection{"NearKey", "kill:rnk=1,step=5", "Did you mean 'rank'?"},
        BadInjection{"MissingKey", "kill:rank=1", "kill needs step="},
        BadInjection{"MissingPhase", "slow:rank=1,percent=5", "slow needs phase="},
        BadInjection{"SlowByTwo", "slow:phase=forward,percent=5,ms=5", "one of the two"},
        BadInjection{"SlowByNothing", "slow:phase=forward", "slow needs percent=... or ms="},
        BadInjection{
            "NoTime", "stall:rank=1,step=5,ms=0",
            "got \"ms=0\" (each once; rank, step and bucket from 0, percent and ms above 0)"},
        BadInjection{"NoStep", "stall:rank=1", "stall needs step="},
        BadInjection{"KeyTwice", "kill:rank=1,rank=2,step=5", "got \"rank=2\" (each once"},
        BadInjection{"NoEquals", "kill:rank1,step=5", "got \"rank1\""},
        BadInjection{"EmptyValue", "kill:rank=,step=5", "got \"rank=\""},
        BadInjection{"TrailingComma", "kill:rank=1,step=5,", "got \"\""},
        BadInjection{"TrailingColon", "sum:", "sum takes no key, got \"\""},
        BadInjection{"NegativeRank", "kill:rank=-1,step=5", "got \"rank=-1\""},
        BadInjection{"StepInWords", "kill:rank=1,step=five", "got \"step=five\""},
        BadInjection{"UnknownPhase", "slow:phase=backwards,percent=5", "Did you mean 'backward'?"},
        BadInjection{"NoPercent", "slow:phase=forward,percent=0", "got \"percent=0\""},
        BadInjection{"EndlessPercent", "slow:phase=forward,percent=inf", "got \"percent=inf\""}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace ddpbench::bench
