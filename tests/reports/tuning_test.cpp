// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Recommendations of `ddpbench tune` for made-up rounds.
#include "reports/metrics/ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/json/report_json.h"
#include "reports/table/table.h"
#include "reports/why/why.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Tune judged(const std::vector<double>& ratios) {
  Tune tune;
  tune.settings = {{1, 25, true, 1, Figure::of(1)}, {0.25, 4, false, 3, Figure::of(0.8)}};
  tune.screening_rounds = 3;
  tune.candidate = 1;
  tune.least_gain_ratio = 0.01;
  judge_gain(tune, ratios);
  tune.conclusion = conclude(tune);
  return tune;
}

TEST(Tuning, RecommendsWhatIsFasterInEveryRound) {
  const Tune tune = judged({0.9, 0.91, 0.89, 0.9, 0.92, 0.88, 0.9, 0.9});
  EXPECT_TRUE(tune.recommended);
  EXPECT_NEAR(tune.gain_ratio.value.value(), 0.10, 1e-3);
  EXPECT_NEAR(tune.gain_low_ratio.value.value(), 0.09, 2e-3);
  EXPECT_THAT(tune.conclusion,
              AllOf(HasSubstr("--first-bucket-mb=0.25 --bucket-cap-mb=4 --overlap=off"),
                    HasSubstr("10.0 %"), HasSubstr("8 pairs")));
}

TEST(Tuning, KeepsTheDefaultWithinNoise) {
  const Tune tune = judged({0.9, 1.1, 0.95, 1.02, 0.97, 1.05, 0.99, 0.98});
  EXPECT_FALSE(tune.recommended);
  EXPECT_THAT(tune.conclusion, HasSubstr("Keep the default: the best of"));
}

TEST(Tuning, KeepsTheDefaultWhenTheGainIsCertainButSmall) {
  const Tune tune = judged({0.995, 0.996, 0.994, 0.995, 0.995, 0.996});
  EXPECT_FALSE(tune.recommended);
  EXPECT_THAT(tune.conclusion, HasSubstr("gained 0.5 % when measured again"));
}

TEST(Tuning, SaysWhenTheBestWasLuck) {
  const Tune tune = judged({1.1, 1.2, 1.15, 1.1, 1.12, 1.11});
  EXPECT_FALSE(tune.recommended);
  EXPECT_THAT(tune.conclusion, HasSubstr("when measured again"));
}

TEST(Tuning, SaysNothingFromTooFewPairs) {
  const Tune tune = judged({0.5, 0.5, 0.5, 0.5, 0.5});
  EXPECT_FALSE(tune.recommended);
  EXPECT_FALSE(tune.gain_ratio.value);
  EXPECT_THAT(tune.conclusion, StartsWith("Nothing can be said"));
}

TEST(Tuning, SaysThatNothingBeatTheDefault) {
  Tune tune;
  tune.settings = {{1, 25, true, 1, Figure::of(1)}};
  tune.screening_rounds = 3;
  EXPECT_THAT(conclude(tune), HasSubstr("make no difference"));
}

TEST(Tuning, IsReadBackAsWritten) {
  Report report = test::sample_report();
  for (const bool confirmed : {true, false}) {
    report.tune = judged({0.9, 0.91, 0.89, 0.9, 0.92, 0.88});
    if (!confirmed) {
      report.tune->candidate.reset();
      report.tune->gain_ratio = report.tune->gain_low_ratio = report.tune->gain_high_ratio = {};
    }
    const auto written = to_json(report);
    EXPECT_THAT(ddpbench::test::schema_errors(nlohmann::json::parse(written.dump()),
                                              DDPBENCH_REPORT_SCHEMA),
                IsEmpty());
    EXPECT_EQ(to_json(parse_report(written.dump(), "r.json")).dump(), written.dump());
    EXPECT_EQ(answer_lines(all_runs(report)), std::vector{report.tune->conclusion});
  }
}

}  // namespace
}  // namespace ddpbench::report
