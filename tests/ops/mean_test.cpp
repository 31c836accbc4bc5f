// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Mean of buffers, of both backends.
#include <limits>

#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

// Block sizes, their neighbours, and enough elements for a team.
constexpr std::int64_t kMeanCounts[] = {0, 1, 2047, 2048, 2049, 40009};

TEST(Mean, DividesTheSumByTheNumberOfBuffers) {
  for (BackendFixture& fixture : all_backends())
    for (const std::size_t buffers : {1, 2, 3, 5})
      for (const std::int64_t count : kMeanCounts) {
        std::vector<Values> inputs;
        std::vector<const float*> pointers;
        Values want(static_cast<std::size_t>(count));
        for (std::size_t b = 0; b < buffers; ++b)
          inputs.push_back(random_values(count, static_cast<std::uint32_t>(b)));
        for (std::size_t i = 0; i < want.size(); ++i) {
          double sum = 0;
          for (const Values& input : inputs) sum += input[i];
          want[i] = static_cast<float>(sum / static_cast<double>(buffers));
        }
        for (const Values& input : inputs) pointers.push_back(input.data());
        Values got(want.size(), std::numeric_limits<float>::quiet_NaN());
        fixture.backend().mean(fixture.stream(), pointers, got.data(), got.size());
        // k roundings for k buffers, each of a sum of at most k, divided by k.
        EXPECT_TRUE(all_near(got, want, sum_tolerance(static_cast<std::int64_t>(buffers))));
      }
}

TEST(Mean, MayOverwriteAnyOfItsInputs) {
  for (BackendFixture& fixture : all_backends())
    for (const std::size_t target : {0, 1}) {
      Values buffers[2] = {random_values(5000, 1), random_values(5000, 2)};
      Values apart(5000);
      const float* const pointers[] = {buffers[0].data(), buffers[1].data()};
      fixture.backend().mean(fixture.stream(), pointers, apart.data(), 5000);
      fixture.backend().mean(fixture.stream(), pointers, buffers[target].data(), 5000);
      EXPECT_TRUE(same_bits(buffers[target], apart));
    }
}

}  // namespace
}  // namespace ddpbench::ops::testing
