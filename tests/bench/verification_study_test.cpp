// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A small part of the verification study (docs/metrics.md): the same cases each time.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/verification_study/study_run.h"
#include "kernels/ops/onednn_backend.h"

namespace ddpbench::bench {
namespace {

constexpr std::uint64_t kSeed = 1;

TEST(VerificationStudy, HealthyCasesPass) {
  StudyRunner runner;
  for (std::uint64_t seed = kSeed; seed < kSeed + 40; ++seed) {
    const StudyCase drawn = draw_case(seed);
    const StudyOutcome outcome = runner.run(drawn);
    EXPECT_TRUE(outcome.passed) << drawn.describe() << ": " << outcome.failure;
  }
}

// Training fits the data so well here that shares and targets of the loss cancel to 1e-4 of them.
// One device scales the loss by 1 / 48, each of three by 1 / 16: a scale that is rounded before
// they cancel moves the whole step by more than the bound.
TEST(VerificationStudy, AFittedDataSetPasses) {
  StudyRunner runner;
  const StudyCase drawn = draw_case(302027);
  const StudyOutcome outcome = runner.run(drawn);
  EXPECT_TRUE(outcome.passed) << drawn.describe() << ": " << outcome.failure;
  EXPECT_EQ(outcome.steps, 142);
}

// Gradients cancel in front of a batch norm: by the structure of the network (over two values a
// channel, or where channels are multiples of one), by chance, or as training made it, by ReLUs
// that cut nothing or values that became alike.
TEST(VerificationStudy, GradientsThatCancelPass) {
  StudyRunner runner;
  for (const std::uint64_t seed :
       {801151U, 813079U, 404577U, 820610U, 826123U, 1000267U, 1000329U, 1005831U}) {
    const StudyCase drawn = draw_case(seed);
    const StudyOutcome outcome = runner.run(drawn);
    EXPECT_TRUE(outcome.passed) << drawn.describe() << ": " << outcome.failure;
  }
}

// Gradients of three devices are rounded to bf16 otherwise than the reference's.
TEST(VerificationStudy, RoundedMapsOfThreeDevicesPass) {
  if (!ops::why_no_cpu_bf16().empty()) GTEST_SKIP() << ops::why_no_cpu_bf16();
  StudyRunner runner;
  for (const std::uint64_t seed : {3000127U, 3000170U}) {
    StudyCase drawn = draw_case(seed);
    drawn.options.precision = "bf16";
    const StudyOutcome outcome = runner.run(drawn);
    EXPECT_TRUE(outcome.passed) << drawn.describe() << ": " << outcome.failure;
    EXPECT_GT(outcome.worst, 0.4) << "which is the rounding that the probe measures";
  }
}

// A variance is infinite before the activations are.
TEST(VerificationStudy, RunningStatisticsDiverge) {
  StudyRunner runner;
  const StudyOutcome outcome = runner.run(draw_case(1008892));
  EXPECT_TRUE(outcome.passed) << outcome.failure;
  EXPECT_NE(outcome.diverged.find("running_var"), std::string::npos) << outcome.diverged;
}

// A fault that changes no weight by a single bit has not happened.
TEST(VerificationStudy, PlantedFaultsAreFound) {
  StudyRunner runner;
  int found = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 30; ++seed) {
    StudyCase drawn = draw_faulty_case(seed);
    const StudyOutcome outcome = runner.run(drawn);
    if (!outcome.missed.empty()) continue;
    found += outcome.passed ? 0 : 1;
    if (!outcome.passed) continue;
    drawn.options.injections.clear();
    EXPECT_EQ(outcome.weights, runner.run(drawn).weights) << drawn.describe() << " was missed";
  }
  EXPECT_GT(found, 15);
}

// A bound that held for few steps alone would not be noticed otherwise.
TEST(VerificationStudy, DrawsFewAndManySteps) {
  int few = 0, many = 0, most = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 200; ++seed) {
    const int steps = draw_case(seed).options.verify_steps;
    few += steps <= 5 ? 1 : 0;
    many += steps >= 60 ? 1 : 0;
    most = std::max(most, steps);
  }
  EXPECT_GT(few, 100);
  EXPECT_GT(many, 20);
  EXPECT_GT(most, 270);
  EXPECT_LE(most, 300);
}

TEST(VerificationStudy, DrawsTheSameCaseForASeed) {
  const StudyCase first = draw_faulty_case(7), again = draw_faulty_case(7);
  EXPECT_EQ(first.model, again.model);
  EXPECT_EQ(first.options, again.options);
  EXPECT_EQ(first.decoded, again.decoded);
  EXPECT_NE(first.model, draw_faulty_case(8).model);
}

}  // namespace
}  // namespace ddpbench::bench
