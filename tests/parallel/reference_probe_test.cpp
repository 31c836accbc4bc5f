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

// |probe / factor - gradients| / |gradients|
double error_of(const Values& probe, double factor, const Values& gradients) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const double error = probe[i] / factor - gradients[i];
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
      const Values& gradients = slices[(step + 1) * slices_of_step - 1];
      const double error = error_of(probes[step], options.probe_factor, gradients);
      EXPECT_GT(error, 1e-9);
      EXPECT_LT(error, 1e-5);
    }
  }
}

// A power of two rounds nothing otherwise.
TEST_P(ReferenceProbe, OfAnEqualScaleHasTheSameBits) {
  std::vector<Values> probes, gradients;
  const test::HarnessOptions options{
      .steps = kProbedSteps,
      .probed =
          [&](const nn::Graph& graph) { probes.push_back(values_of(nn::export_gradients(graph))); },
      .slice_added =
          [&](const nn::Graph& graph) {
            gradients.push_back(values_of(nn::export_gradients(graph)));
          },
      .probe_factor = 4};
  run_strategy(test::normalized_model(), reference_config(1, GetParam()), options);
  ASSERT_EQ(probes.size(), gradients.size());
  for (std::size_t step = 0; step < probes.size(); ++step) {
    EXPECT_EQ(error_of(probes[step], options.probe_factor, gradients[step]), 0);
  }
}

nn::ModelSpec dropping_normalized_model() {
  nn::ModelSpec model = test::normalized_model();
  for (nn::LayerSpec& layer : model.layers) {
    if (layer.type == nn::LayerType::relu) {
      layer.type = nn::LayerType::dropout;
      layer.drop_probability = 0.2;
    }
  }
  return model;
}

TEST_P(ReferenceProbe, LeavesNoTrace) {
  for (const int replicas : {1, 3}) {
    const StrategyConfig config = reference_config(replicas, GetParam());
    test::HarnessOptions options{.steps = kProbedSteps};
    const nn::ModelSpec model = dropping_normalized_model();
    const auto expected = run_strategy(model, config, options);
    options.probed = [](const nn::Graph&) {};
    const auto probed = run_strategy(model, config, options);
    EXPECT_EQ(values_of(probed.weights[0]), values_of(expected.weights[0]));
    EXPECT_EQ(values_of(probed.state[0]), values_of(expected.state[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(SyncBatchNorm, ReferenceProbe, testing::Bool());

}  // namespace
}  // namespace ddpbench
