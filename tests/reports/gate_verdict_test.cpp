// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The verdicts of the gate on given repetitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/reports/gate_support.h"

namespace ddpbench::report {
namespace {

using test::check_one;
using test::figure_of;
using test::gate_report;
using test::steady;
using testing::Contains;
using testing::HasSubstr;

TEST(Gate, PassesRepetitionsThatDifferByNoiseOnly) {
  const GateResult result =
      check_one(gate_report({0.0201, 0.0199, 0.0200, 0.0203, 0.0198}), gate_report(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::pass);
  EXPECT_EQ(result.pairs.at(0).base_repetitions, 5u);
  EXPECT_EQ(result.pairs.at(0).figures.size(), 6u);
}

TEST(Gate, FlagsASlowdownBeyondTheMinimumEffect) {
  const GateResult result = check_one(gate_report(steady(1.10)), gate_report(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  const FigureVerdict& step = figure_of(result, "median_step_s");
  EXPECT_EQ(step.verdict, GateVerdict::regressed);
  EXPECT_NEAR(*step.change, 0.10, 1e-9);
  EXPECT_LT(*step.change_low, 0.10);
  EXPECT_GT(*step.change_high, 0.10);
  EXPECT_LT(*step.p_worse, 0.001);
  EXPECT_NEAR(*step.noise, 0.0114, 0.0002);
  EXPECT_EQ(figure_of(result, "samples_per_s").verdict, GateVerdict::regressed);
  EXPECT_EQ(figure_of(result, "peak_bytes").verdict, GateVerdict::pass);
}

TEST(Gate, PassesASignificantSlowdownBelowTheMinimumEffect) {
  const GateResult result = check_one(gate_report(steady(1.03)), gate_report(steady()));
  EXPECT_LT(*figure_of(result, "median_step_s").p_worse, 0.05);
  EXPECT_EQ(result.verdict, GateVerdict::pass);
}

TEST(Gate, FlagsItWhenLessIsAllowed) {
  GateOptions options;
  options.max_slowdown = 0.02;
  const GateResult result = check_one(gate_report(steady(1.03)), gate_report(steady()), options);
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
}

TEST(Gate, CallsASpeedUpAnImprovement) {
  const GateResult result = check_one(gate_report(steady(0.9)), gate_report(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::improved);
  EXPECT_LT(*figure_of(result, "median_step_s").change, 0);
}

TEST(Gate, IsInconclusiveWhenNoiseHidesTwiceTheMinimumEffect) {
  const GateResult result = check_one(gate_report({0.018, 0.022, 0.020, 0.024, 0.0165}),
                                      gate_report({0.017, 0.0215, 0.0205, 0.023, 0.018}));
  EXPECT_EQ(result.verdict, GateVerdict::inconclusive);
  const FigureVerdict& step = figure_of(result, "median_step_s");
  ASSERT_TRUE(step.repetitions_needed);
  EXPECT_GT(*step.repetitions_needed, 20);
  EXPECT_LT(*step.repetitions_needed, 200);
}

TEST(Gate, SaysWhenNoReasonableNumberOfRepetitionsWouldDecide) {
  const GateResult result =
      check_one(gate_report({0.002, 2, 0.02, 40}), gate_report({0.003, 3, 0.01, 60}));
  EXPECT_EQ(result.verdict, GateVerdict::inconclusive);
  EXPECT_FALSE(figure_of(result, "median_step_s").repetitions_needed);
  EXPECT_THAT(figure_of(result, "median_step_s").note, HasSubstr("1000"));
}

TEST(Gate, PassesEqualValuesWithoutVariance) {
  for (const std::size_t repetitions : {1u, 2u, 5u}) {
    const Report report = gate_report(std::vector<double>(repetitions, 0.02));
    EXPECT_EQ(check_one(report, report).verdict, GateVerdict::pass) << repetitions;
  }
}

TEST(Gate, DecidesWithoutATestWhereNothingVaries) {
  const Report base = gate_report({0.02, 0.02, 0.02});
  EXPECT_EQ(check_one(gate_report({0.022, 0.022, 0.022}), base).verdict, GateVerdict::regressed);
  EXPECT_EQ(check_one(gate_report({0.0208, 0.0208, 0.0208}), base).verdict, GateVerdict::pass);
  EXPECT_EQ(check_one(gate_report({0.0208, 0.0208, 0.0208}), base).tests, 0u);
}

TEST(Gate, DoesNotLetOneDisturbedRepetitionHideASlowdown) {
  std::vector<double> disturbed = steady();
  disturbed[2] *= 1.6;
  const GateResult result = check_one(gate_report(steady(1.12)), gate_report(disturbed));
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  EXPECT_EQ(figure_of(result, "median_step_s").outliers, 1);
  EXPECT_THAT(result.pairs[0].notes, Contains(HasSubstr("outlier limited")));
}

// The figures that outputs show are those whose difference is judged.
TEST(Gate, ShowsTheFiguresThatItCompared) {
  std::vector<double> disturbed = steady();
  disturbed[1] *= 2.25;
  const GateResult result = check_one(gate_report(disturbed), gate_report(steady()));
  const FigureVerdict& step = figure_of(result, "median_step_s");
  ASSERT_EQ(step.outliers, 1);
  EXPECT_NEAR(*step.candidate / *step.base - 1, *step.change, 1e-12);
  EXPECT_LT(*step.change, 0.05);
  EXPECT_NEAR(*step.candidate_measured / *step.base_measured, std::pow(2.25, 0.2), 1e-9);
  EXPECT_DOUBLE_EQ(*step.base_measured, *step.base);
  EXPECT_THAT(result.pairs[0].notes,
              Contains(HasSubstr("median step: 1 outlier limited (without that: 20.00 "
                                 "-> 23.5")));
}

TEST(Gate, SaysByHowMuchOfTheBaselineAThroughputFell) {
  Report base = gate_report(steady()), candidate = gate_report(steady(9942.0 / 3516));
  const GateResult result = check_one(candidate, base);
  const FigureVerdict& rate = figure_of(result, "samples_per_s");
  EXPECT_NEAR(*rate.change, 1 - 3516.0 / 9942, 1e-9);  // 64.6 %, not 182.8 %
  EXPECT_NEAR(*rate.candidate, *rate.base * (1 - *rate.change), 1e-6);
  EXPECT_LT(*rate.change_low, *rate.change);
  EXPECT_GT(*rate.change_high, *rate.change);
  EXPECT_LT(*rate.change_high, 1);
}

// A step that takes as much longer as is allowed, and the throughput that follows from it, have the
// same verdict.
TEST(Gate, AllowsAThroughputWhatItAllowsItsStep) {
  for (const double factor : {1.0495, 1.0505}) {
    const GateResult result =
        check_one(gate_report({0.02 * factor, 0.02 * factor}), gate_report({0.02, 0.02}));
    EXPECT_EQ(figure_of(result, "samples_per_s").verdict,
              figure_of(result, "median_step_s").verdict);
    EXPECT_NEAR(figure_of(result, "samples_per_s").minimum_effect, 1 - 1 / 1.05, 1e-12);
  }
}

TEST(Gate, FlagsMemoryOfTheLargestDevice) {
  Report candidate = gate_report(steady());
  for (report::Run& run : candidate.runs)
    run.devices[1].peak_bytes = run.devices[0].peak_bytes * 11 / 10;
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(figure_of(result, "peak_bytes").verdict, GateVerdict::regressed);
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  candidate = gate_report(steady());
  for (report::Run& run : candidate.runs) run.devices[1].peak_bytes = run.devices[0].peak_bytes;
  EXPECT_EQ(check_one(candidate, gate_report(steady())).verdict, GateVerdict::pass);
}

TEST(Gate, FlagsALossThatRoseAndAnAccuracyThatFell) {
  Report candidate = gate_report(steady());
  for (report::Run& run : candidate.runs) {
    run.epochs.back().train_loss *= 1.2;
    run.epochs.back().test_accuracy = Figure::of(0.97);
  }
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(figure_of(result, "final_train_loss").verdict, GateVerdict::regressed);
  EXPECT_EQ(figure_of(result, "final_test_accuracy").verdict, GateVerdict::regressed);
  EXPECT_NEAR(*figure_of(result, "final_test_accuracy").change, 0.0112, 1e-9);
}

TEST(Gate, FlagsTrainingThatDiverges) {
  Report candidate = gate_report(steady());
  candidate.runs[3].epochs.back().train_loss = std::numeric_limits<double>::quiet_NaN();
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(figure_of(result, "final_train_loss").verdict, GateVerdict::regressed);
  EXPECT_THAT(figure_of(result, "final_train_loss").note, HasSubstr("1 of 5"));
  // The other way round the baseline has no loss to compare with.
  const GateResult back = check_one(gate_report(steady()), candidate);
  EXPECT_EQ(back.verdict, GateVerdict::pass);
  EXPECT_THAT(back.pairs[0].notes, Contains(HasSubstr("final loss not compared")));
}

// The status says why the loss is missing; the run was timed as any other.
TEST(Gate, JudgesARunWithTheStatusDivergedByItsFigures) {
  Report candidate = gate_report(steady());
  report::Run& run = candidate.runs[3];
  run.status = Status::diverged;
  run.error.emplace();
  run.epochs.back().train_loss = std::numeric_limits<double>::quiet_NaN();
  const GateResult result = check_one(candidate, gate_report(steady()));
  EXPECT_EQ(figure_of(result, "final_train_loss").verdict, GateVerdict::regressed);
  EXPECT_EQ(figure_of(result, "median_step_s").verdict, GateVerdict::pass);
}

// It ends with the epoch in which its loss ceased to be finite: no other setting, but a result.
TEST(Gate, FlagsADivergedRunOfFewerEpochs) {
  Report candidate = gate_report(steady()), base = gate_report(steady());
  for (report::Run& run : base.runs) run.epochs.push_back(run.epochs.back());
  for (report::Run& run : candidate.runs) {
    run.status = Status::diverged;
    run.error.emplace();
    run.diverged_step = Known<std::int64_t>::of(2);
    run.epochs.back().train_loss = std::numeric_limits<double>::quiet_NaN();
  }
  const GateResult result = check_one(candidate, base);
  EXPECT_EQ(figure_of(result, "final_train_loss").verdict, GateVerdict::regressed);
}

TEST(Gate, DoesNotLetANoisyTailAloneMakeAPairInconclusive) {
  Report candidate = gate_report(steady()), base = gate_report(steady());
  const double tails[] = {1.1, 1.9, 1.2, 2.4, 1.3};
  for (std::size_t i = 0; i < 5; ++i) {
    candidate.runs[i].step.time_s->p95 = 0.02 * tails[i];
    base.runs[i].step.time_s->p95 = 0.02 * tails[4 - i] * 0.95;
  }
  const GateResult result = check_one(candidate, base);
  EXPECT_EQ(figure_of(result, "p95_step_s").verdict, GateVerdict::inconclusive);
  EXPECT_EQ(result.verdict, GateVerdict::pass);
}

// The same noisy difference is less significant among many pairs than alone.
TEST(Gate, CorrectsForTheNumberOfPairs) {
  const std::vector<double> slow = {0.0215, 0.0225, 0.0220};
  const std::vector<double> base = {0.0195, 0.0205, 0.0200};
  const GateResult one = check_one(gate_report(slow), gate_report(base));
  Report many_candidates, many_base;
  for (int pair = 0; pair < 20; ++pair) {
    for (std::size_t i = 0; i < base.size(); ++i) {
      // The noise differs from pair to pair, so that variances lend each other nothing.
      const double scale = std::pow(10, -pair);
      many_candidates.runs.push_back(
          test::gate_run(pair == 0 ? slow[i] : 0.02 + scale * (base[i] - 0.02)));
      many_base.runs.push_back(
          test::gate_run(pair == 0 ? base[i] : 0.02 + scale * (base[i] - 0.02)));
      many_candidates.runs.back().world_size = many_base.runs.back().world_size = pair + 2;
    }
  }
  const GateResult many = check_one(many_candidates, many_base);
  EXPECT_GT(many.tests, one.tests);
  EXPECT_GT(*figure_of(many, "median_step_s").p_worse,
            2 * *figure_of(one, "median_step_s").p_worse);
}

TEST(GateWithOneRepetition, SaysSoAndJudgesByTheNoiseWithinTheRuns) {
  Report base = gate_report({0.02}), candidate = gate_report({0.024});
  for (Report* report : {&base, &candidate}) {
    report::Run& run = report->runs[0];
    const double median_s = run.step.time_s->median;
    run.step.samples_s.clear();
    for (int i = 0; i < 200; ++i) {
      run.step.samples_s.push_back(median_s * (1 + 0.01 * std::sin(i)));
    }
    run.step.count = 200;
  }
  const GateResult result = check_one(candidate, base);
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  EXPECT_THAT(result.pairs[0].notes, Contains(HasSubstr("one repetition a side")));
  // The same difference within runs that are equally noisy.
  for (Report* report : {&base, &candidate}) {
    report::Run& run = report->runs[0];
    for (std::size_t i = 0; i < 200; ++i) {
      run.step.samples_s[i] *= 1 + 0.2 * std::sin(static_cast<double>(i) / 20);
    }
  }
  EXPECT_EQ(check_one(candidate, base).verdict, GateVerdict::inconclusive);
}

TEST(GateWithOneRepetition, IsInconclusiveWithTooFewStepsToKnowTheNoise) {
  const GateResult result = check_one(gate_report({0.024}), gate_report({0.02}));
  EXPECT_EQ(result.verdict, GateVerdict::inconclusive);
  EXPECT_FALSE(figure_of(result, "median_step_s").p_worse);
  EXPECT_THAT(figure_of(result, "median_step_s").note, HasSubstr("does not tell the noise"));
  EXPECT_TRUE(figure_of(result, "median_step_s").repetitions_needed);
}

TEST(GateWithOneRepetition, IsInconclusiveWhereStepsTakeNoTime) {
  report::Report candidate = gate_report({0.024}), base = gate_report({0.02});
  candidate.runs[0].step.samples_s.assign(100, 0.0);
  base.runs[0].step.samples_s.assign(100, 0.02);
  EXPECT_EQ(check_one(candidate, base).verdict, GateVerdict::inconclusive);
}

TEST(GateWithOneRepetition, OfOneSideUsesTheNoiseOfTheOther) {
  const GateResult result = check_one(gate_report({0.026}), gate_report(steady()));
  EXPECT_EQ(result.verdict, GateVerdict::regressed);
  EXPECT_THAT(result.pairs[0].notes, Contains(HasSubstr("only one repetition of the new runs")));
}

}  // namespace
}  // namespace ddpbench::report
