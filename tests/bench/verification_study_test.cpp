// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A small part of the verification study (docs/metrics.md): the same cases each time.
#include <gtest/gtest.h>

#include "bench/verification_study/study_run.h"

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

TEST(VerificationStudy, DrawsTheSameCaseForASeed) {
  const StudyCase first = draw_faulty_case(7), again = draw_faulty_case(7);
  EXPECT_EQ(first.model, again.model);
  EXPECT_EQ(first.options, again.options);
  EXPECT_EQ(first.decoded, again.decoded);
  EXPECT_NE(first.model, draw_faulty_case(8).model);
}

}  // namespace
}  // namespace ddpbench::bench
