// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The probes of the reference: the gradients of a step, rounded otherwise, which leave no trace.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/nn/weights.h"
#include "parallel/strategy.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

constexpr int kProbedSteps = 3;

using Values = std::vector<float>;

Values values_of(const std::vector<nn::NamedTensor>& tensors) {
  Values values;
  for (const nn::NamedTensor& tensor : tensors) {
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
    values.insert(values.end(), tensor.integers.begin(), tensor.integers.end());
  }
  return values;
}

StrategyConfig reference_config(int replicas, bool sync_batch_norm) {
  StrategyConfig config;
  config.strategy = "reference";
  config.replicas = replicas;
  config.sync_batch_norm = sync_batch_norm;
  config.per_device_batch = 24 / replicas;
  config.optimizer = {.lr = 0.05, .momentum = 0.9};
  return config;
}

// |probe / kProbeScale - gradients| / |gradients|
double error_of(const Values& probe, const Values& gradients) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const double error = probe[i] / double{kProbeScale} - gradients[i];
    difference += error * error;
    norm += double{gradients[i]} * gradients[i];
  }
  return std::sqrt(difference / norm);
}

class ReferenceProbe : public testing::TestWithParam<bool> {};

TEST_P(ReferenceProbe, RoundsTheGradientsOtherwise) {
  for (const int replicas : {1, 3}) {
    std::vector<Values> probes, slices;
    const test::HarnessOptions options{
        .steps = kProbedSteps,
        .probed =
            [&](const nn::Graph& graph) {
              probes.push_back(values_of(nn::export_gradients(graph)));
            },
        .slice_added =
            [&](const nn::Graph& graph) {
              slices.push_back(values_of(nn::export_gradients(graph)));
            }};
    run_strategy(test::normalized_model(), reference_config(replicas, GetParam()), options);
    ASSERT_EQ(probes.size(), std::size_t{kProbedSteps});
    ASSERT_EQ(slices.size() % probes.size(), 0U);
    const std::size_t slices_of_step = slices.size() / probes.size();
    EXPECT_EQ(slices_of_step, GetParam() ? 1 : static_cast<std::size_t>(replicas));
    for (std::size_t step = 0; step < probes.size(); ++step) {
      const double error = error_of(probes[step], slices[(step + 1) * slices_of_step - 1]);
      EXPECT_GT(error, 1e-9);
      EXPECT_LT(error, 1e-5);
    }
  }
}

TEST_P(ReferenceProbe, LeavesNoTrace) {
  for (const int replicas : {1, 3}) {
    const StrategyConfig config = reference_config(replicas, GetParam());
    test::HarnessOptions options{.steps = kProbedSteps};
    const auto expected = run_strategy(test::normalized_model(), config, options);
    options.probed = [](const nn::Graph&) {};
    const auto probed = run_strategy(test::normalized_model(), config, options);
    EXPECT_EQ(values_of(probed.weights[0]), values_of(expected.weights[0]));
    EXPECT_EQ(values_of(probed.state[0]), values_of(expected.state[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(SyncBatchNorm, ReferenceProbe, testing::Bool());

}  // namespace
}  // namespace ddpbench
