// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients: the reference graph against finite differences, oneDNN's graph against the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tests/nn/layout_backend.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place of a float in [1, 2)

ModelSpec lenet() { return load_model_file(model_path("lenet5")); }

// The gradient along one weight, from the losses at five points.
//
// Along one weight, a network of these layers is piecewise linear. Between two kinks (a relu or a
// pool changes its choice) the central difference is the gradient, up to rounding. A kink among the
// points shows in a second difference.
struct Difference {
  double slope = 0;
  double bend = 0;  // largest second difference
};

Difference difference(TestGraph& test, std::size_t parameter, std::size_t k, float step) {
  const std::vector<float> values = test.weight(parameter);
  std::array<double, 5> losses{};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    std::vector<float> moved = values;
    moved[k] += (static_cast<float>(i) - 2) / 2 * step;
    test.set_weight(parameter, moved);
    losses[i] = test.loss();
  }
  test.set_weight(parameter, values);
  Difference result{(losses[4] - losses[0]) / (2 * static_cast<double>(step)), 0};
  for (std::size_t i = 1; i + 1 < losses.size(); ++i) {
    result.bend = std::max(result.bend, std::abs(losses[i - 1] - 2 * losses[i] + losses[i + 1]));
  }
  return result;
}

// Shifts maps far to one side of the relu after them, and every other map far to the other side, so
// that few steps meet a kink. (A bias moves a whole map: some pixel would always meet one.)
void decide_relus(TestGraph& test) {
  const auto& parameters = test.graph().plan().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name != "stem.bias" && parameters[i].name != "left.bias") continue;
    test.set_weight(i, {3, -3, -3, 3});
  }
}

// `layers` and `products`: in the longest path, and in the longest sum on it.
void expect_gradients_match_differences(TestGraph& test, double layers, double products) {
  constexpr float kStep = 0x1p-7F;
  // The loss sums 6 logits of size 2. With independent roundings its error is about (for 5 layers
  // of 36 products 9e-6):
  const double loss_error = std::sqrt(6.0) * 2 * layers * std::sqrt(products) * kEpsilon;
  // A second difference has four losses of that error. A kink hidden below it moves the slope by
  // twice the bend divided by the step.
  const double largest_bend = 4 * loss_error;
  const double tolerance = (2 * largest_bend + loss_error) / static_cast<double>(kStep);
  decide_relus(test);
  test.train();
  const auto& parameters = test.graph().plan().parameters;
  std::vector<std::vector<float>> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) gradients.push_back(test.gradient(i));
  std::mt19937 random(5);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    int checked = 0;
    for (int draw = 0; draw < 100 && checked < 6; ++draw) {
      const std::size_t k = random() % gradients[i].size();
      const Difference d = difference(test, i, k, kStep);
      if (d.bend > largest_bend) continue;
      EXPECT_NEAR(gradients[i][k], d.slope, tolerance) << parameters[i].name << " element " << k;
      if (d.slope != 0) ++checked;
    }
    EXPECT_EQ(checked, 6) << "too many kinks or zeros along " << parameters[i].name;
  }
}

TEST(ReferenceGradients, OfABranchedNetworkMatchFiniteDifferences) {
  TestGraph test(residual_network(), reference, {.batch = 2, .micro_batch = 0});
  expect_gradients_match_differences(test, 5, 36);
}

TEST(ReferenceGradients, OfJoinedBranchesMatchFiniteDifferences) {
  TestGraph test(joined_network(), reference, {.batch = 2, .micro_batch = 0});
  expect_gradients_match_differences(test, 8, 131);
}

TEST(ReferenceGradients, InMicroBatchesMatchFiniteDifferences) {
  TestGraph test(residual_network(), reference, {.batch = 2, .micro_batch = 1});
  expect_gradients_match_differences(test, 5, 36);
}

// Each second layer with parameters is frozen, from the first or from the second one on.
ModelSpec half_frozen(ModelSpec model, bool first) {
  for (LayerSpec& layer : model.layers) {
    if (model.plan_of(layer).parameters.empty()) continue;
    layer.trainable = !first;
    first = !first;
  }
  return model;
}

TEST(FrozenLayers, LeaveTheOthersTheirGradients) {
  for (const BackendMaker& backend : {BackendMaker(reference), BackendMaker(onednn)})
    for (const ModelSpec& model :
         {residual_network(), joined_network(), normalized_network(), lenet()})
      for (const bool first : {true, false})
        for (const std::int64_t micro_batch : {0, 2}) {
          SCOPED_TRACE(model.name + (first ? " from the first" : " from the second"));
          const GraphOptions options{.batch = 4, .micro_batch = micro_batch};
          TestGraph whole(model, backend, options);
          TestGraph frozen(half_frozen(model, first), backend, options);
          whole.train();
          std::vector<std::size_t> ready;
          frozen.train(false, [&](std::size_t parameter) { ready.push_back(parameter); });
          const ParameterPlan& plan = frozen.graph().plan();
          EXPECT_EQ(plan.tensor_count(), whole.graph().plan().parameters.size());
          EXPECT_FALSE(plan.frozen.empty());
          EXPECT_EQ(frozen.graph().gradients().bytes(), plan.flat_bytes);
          EXPECT_LT(plan.flat_bytes, frozen.graph().weights().bytes());
          std::ranges::sort(ready);
          ASSERT_EQ(ready.size(), plan.parameters.size());
          for (std::size_t i = 0; i < ready.size(); ++i) {
            EXPECT_EQ(ready[i], i);
            const auto same = std::ranges::find(whole.graph().plan().parameters,
                                                plan.parameters[i].name, &ParameterInfo::name);
            const auto at =
                static_cast<std::size_t>(same - whole.graph().plan().parameters.begin());
            EXPECT_EQ(frozen.gradient(i), whole.gradient(at)) << same->name;
          }
        }
}

struct Comparison {
  std::string name;
  ModelSpec model;
  std::int64_t batch;
  std::int64_t micro_batch;
  BackendMaker backend;
  double longest_sum;  // terms of the longest sum of one gradient
};

std::vector<Comparison> comparisons() {
  // conv1's weight gradient sums over every pixel of every sample.
  const double simple = 8 * 28 * 28, residual = 6 * 6 * 6, joined = 6 * 10 * 9,
               normalized = 6 * 8 * 7;
  return {{"SimpleCnn", simple_cnn(), 8, 0, onednn, simple},
          {"SimpleCnnInMicroBatches", simple_cnn(), 8, 2, onednn, simple},
          {"SimpleCnnSampleBySample", simple_cnn(), 8, 1, onednn, simple},
          {"LeNet", lenet(), 8, 0, onednn, simple},
          {"LeNetInMicroBatches", lenet(), 8, 4, onednn, simple},
          {"Branched", residual_network(), 6, 0, onednn, residual},
          {"BranchedInMicroBatches", residual_network(), 6, 2, onednn, residual},
          {"ReferenceInMicroBatches", simple_cnn(), 8, 2, reference, simple},
          {"BranchedReferenceInMicroBatches", residual_network(), 6, 3, reference, residual},
          {"BranchedWithOddLayouts", residual_network(), 6, 0, odd_layouts, residual},
          {"BranchedWithOddLayoutsInMicroBatches", residual_network(), 6, 2, odd_layouts, residual},
          {"SimpleCnnWithOddLayoutsInMicroBatches", simple_cnn(), 8, 2, odd_layouts, simple},
          {"Joined", joined_network(), 6, 0, onednn, joined},
          {"JoinedInMicroBatches", joined_network(), 6, 2, onednn, joined},
          {"JoinedReferenceInMicroBatches", joined_network(), 6, 3, reference, joined},
          {"JoinedWithOddLayouts", joined_network(), 6, 0, odd_layouts, joined},
          {"JoinedWithOddLayoutsInMicroBatches", joined_network(), 6, 2, odd_layouts, joined},
          {"Normalized", normalized_network(), 6, 0, onednn, normalized},
          {"NormalizedWithOddLayouts", normalized_network(), 6, 0, odd_layouts, normalized},
          {"NormalizedBehindMicroBatches", normalized_network(), 6, 2, onednn, normalized}};
}

class EquivalentGraph : public ::testing::TestWithParam<Comparison> {};

double largest(const std::vector<float>& values) {
  double result = 0;
  for (const float value : values) result = std::max(result, static_cast<double>(std::abs(value)));
  return result;
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size());
  double worst = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    worst = std::max(worst, static_cast<double>(std::abs(values[k] - expected[k])));
  }
  EXPECT_LE(worst, tolerance) << what;
}

TEST_P(EquivalentGraph, GivesTheReferencesLogitsAndGradients) {
  const Comparison& c = GetParam();
  TestGraph expected(c.model, reference, {.batch = c.batch, .micro_batch = 0});
  TestGraph actual(c.model, c.backend, {.batch = c.batch, .micro_batch = c.micro_batch});
  ASSERT_EQ(actual.graph().micro_batch(), c.micro_batch);
  // Summing n terms of random sign in another order moves the sum by about sqrt(n) * 2^-24 times
  // the terms' absolute sum. That sum is sqrt(n) times the result: n * 2^-24 relative to the
  // tensor's largest value. Both sides round, so the tolerance is twice that.
  const double relative = 2 * c.longest_sum * kEpsilon;
  const std::vector<float> logits = expected.forward();
  expect_near(actual.forward(), logits, relative * largest(logits), "logits");
  expected.train();
  actual.train();
  for (std::size_t i = 0; i < expected.graph().plan().parameters.size(); ++i) {
    const std::vector<float> gradient = expected.gradient(i);
    EXPECT_GT(largest(gradient), 0);
    expect_near(actual.gradient(i), gradient, relative * largest(gradient),
                expected.graph().plan().parameters[i].name);
  }
}

INSTANTIATE_TEST_SUITE_P(Graph, EquivalentGraph, ::testing::ValuesIn(comparisons()),
                         [](const auto& instance) { return instance.param.name; });

TEST(MicroBatching, EndsAtAnOperationThatCouplesSamples) {
  TestGraph test(residual_network(), coupled_adds, {.batch = 6, .micro_batch = 2});
  EXPECT_EQ(test.graph().micro_batch(), 2);
  EXPECT_THAT(test.graph().call_names(), testing::IsSupersetOf({"right forward, micro-batch 3 of 3",
                                                                "skip_relu+pool forward"}));
  TestGraph expected(residual_network(), reference, {.batch = 6, .micro_batch = 0});
  expected.train();
  test.train();
  for (std::size_t i = 0; i < expected.graph().plan().parameters.size(); ++i) {
    const std::vector<float> gradient = expected.gradient(i);
    expect_near(test.gradient(i), gradient, 2 * 216 * kEpsilon * largest(gradient),
                expected.graph().plan().parameters[i].name);
  }
}

}  // namespace
}  // namespace ddpbench::nn
