// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a graph promises beside correct numbers: parameters, callbacks, memory, determinism.
#include "kernels/nn/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "kernels/nn/plan/fusion.h"
#include "tests/nn/networks.h"
#include "tests/nn/small_device.h"

namespace ddpbench::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : graph.plan().parameters) names.push_back(parameter.name);
  return names;
}

std::size_t peak_bytes(const Device& device, MemoryCategory category) {
  return device.memory().peak_bytes[static_cast<std::size_t>(category)];
}

// The same plan with and without micro-batches, on several backends.
struct Variant {
  std::string name;
  BackendMaker backend;
  std::int64_t micro_batch;
};

std::vector<Variant> variants() {
  return {{"Reference", reference, 0},
          {"ReferenceInMicroBatches", reference, 2},
          {"OneDnn", onednn, 0},
          {"OneDnnInMicroBatches", onednn, 2}};
}

class AnyGraph : public ::testing::TestWithParam<Variant> {
 protected:
  TestGraph make(const ModelSpec& model, std::int64_t batch = 4) {
    return {model, GetParam().backend, {.batch = batch, .micro_batch = GetParam().micro_batch}};
  }
};

TEST_P(AnyGraph, OrdersParametersAsBackwardProducesThem) {
  TestGraph test = make(simple_cnn());
  EXPECT_THAT(parameter_names(test.graph()),
              ElementsAre("fc2.bias", "fc2.weight", "fc1.bias", "fc1.weight", "conv2.bias",
                          "conv2.weight", "conv1.bias", "conv1.weight"));
  std::size_t end = 0;
  for (const ParameterInfo& parameter : test.graph().plan().parameters) {
    EXPECT_EQ(parameter.offset_bytes % 64, 0u);
    EXPECT_GE(parameter.offset_bytes, end);
    EXPECT_LT(parameter.offset_bytes - end, 64u);
    end = parameter.offset_bytes + parameter.bytes;
  }
  EXPECT_GE(test.graph().plan().flat_bytes, end);
  EXPECT_EQ(test.graph().weights().bytes(), test.graph().plan().flat_bytes);
  EXPECT_EQ(test.graph().gradients().bytes(), test.graph().plan().flat_bytes);
}

TEST_P(AnyGraph, ReportsEachGradientOnceAndInOrderOfAChain) {
  TestGraph test = make(simple_cnn());
  std::vector<std::size_t> ready;
  test.train(false, [&](std::size_t i) { ready.push_back(i); });
  std::vector<std::size_t> expected(test.graph().plan().parameters.size());
  std::iota(expected.begin(), expected.end(), std::size_t{0});
  EXPECT_EQ(ready, expected);
}

TEST_P(AnyGraph, ReportsEachGradientOfABranchedNetworkOnce) {
  TestGraph test = make(residual_network());
  std::vector<std::size_t> times(test.graph().plan().parameters.size(), 0);
  test.train(false, [&](std::size_t i) { ++times[i]; });
  EXPECT_EQ(times, std::vector<std::size_t>(times.size(), 1));
}

TEST_P(AnyGraph, GradientsAreFinalWhenTheyAreReported) {
  TestGraph test = make(residual_network());
  std::vector<std::vector<float>> reported(test.graph().plan().parameters.size());
  test.train(false, [&](std::size_t i) { reported[i] = test.gradient(i); });
  for (std::size_t i = 0; i < reported.size(); ++i) EXPECT_EQ(reported[i], test.gradient(i));
}

TEST_P(AnyGraph, EqualStepsGiveEqualBits) {
  TestGraph test = make(simple_cnn());
  const std::vector<float> logits = test.forward();
  test.train();
  const std::vector<std::byte> gradients = test.gradient_bytes();
  test.train();
  EXPECT_EQ(test.gradient_bytes(), gradients);
  EXPECT_EQ(test.forward(), logits);
  TestGraph other = make(simple_cnn());
  other.train();
  EXPECT_EQ(other.gradient_bytes(), gradients);
}

TEST_P(AnyGraph, AccumulatingAddsToWhatIsThere) {
  TestGraph test = make(residual_network());
  test.train();
  std::vector<std::vector<float>> once;
  for (std::size_t i = 0; i < test.graph().plan().parameters.size(); ++i) {
    once.push_back(test.gradient(i));
  }
  test.train(true);
  for (std::size_t i = 0; i < once.size(); ++i) {
    const std::vector<float> twice = test.gradient(i);
    float largest = 0;
    for (const float value : once[i]) largest = std::max(largest, std::abs(value));
    for (std::size_t k = 0; k < twice.size(); ++k) {
      // g + g is exact, but with micro-batches the sum has another order. Each of three partial
      // sums, at most a few times the largest gradient, is rounded once more.
      EXPECT_NEAR(twice[k], 2 * once[i][k], 16 * std::numeric_limits<float>::epsilon() * largest)
          << test.graph().plan().parameters[i].name;
    }
  }
}

TEST_P(AnyGraph, BackwardOverwritesWhatWasThere) {
  TestGraph test = make(simple_cnn());
  test.train();
  const std::vector<std::byte> gradients = test.gradient_bytes();
  test.train(true);
  EXPECT_NE(test.gradient_bytes(), gradients);
  test.train();
  EXPECT_EQ(test.gradient_bytes(), gradients);
}

TEST_P(AnyGraph, PaddingOfTheFlatBuffersStaysZero) {
  TestGraph test = make(residual_network());
  test.train();
  const auto& parameters = test.graph().plan().parameters;
  for (const Buffer* buffer : {&test.graph().weights(), &test.graph().gradients()}) {
    std::vector<bool> used(buffer->bytes(), false);
    for (const ParameterInfo& p : parameters) {
      std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(p.offset_bytes), p.bytes, true);
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) continue;
      ASSERT_EQ(buffer->data()[i], std::byte{0}) << "at " << i;
    }
  }
}

TEST_P(AnyGraph, LogitsOutliveBackward) {
  TestGraph test = make(simple_cnn());
  const std::vector<float> logits = test.forward();
  test.train();
  EXPECT_EQ(std::vector<float>(test.graph().output(), test.graph().output() + logits.size()),
            logits);
}

INSTANTIATE_TEST_SUITE_P(Graph, AnyGraph, ::testing::ValuesIn(variants()),
                         [](const auto& instance) { return instance.param.name; });

TEST(Graph, WithoutTrainingHasNoGradientMemory) {
  TestGraph training(simple_cnn(), onednn, {.batch = 64, .micro_batch = 0});
  TestGraph evaluation(simple_cnn(), onednn, {.batch = 64, .training = false, .micro_batch = 0});
  EXPECT_EQ(peak_bytes(evaluation.device(), MemoryCategory::gradients), 0u);
  EXPECT_LT(peak_bytes(evaluation.device(), MemoryCategory::activations),
            peak_bytes(training.device(), MemoryCategory::activations));
  EXPECT_EQ(evaluation.forward(), training.forward());
  EXPECT_THROW(evaluation.graph().gradients(), InternalError);
  EXPECT_THROW(evaluation.graph().output_gradient(), InternalError);
  EXPECT_THROW(evaluation.graph().backward(evaluation.stream()), InternalError);
}

TEST(Graph, OfTheNotebooksBatchNeedsLittleMemory) {
  TestGraph test(simple_cnn(), onednn, {.batch = 256, .micro_batch = 8});
  // Backward keeps pooled maps of 6.4 + 3.2 MB and one byte a pooled element, 1.6 + 0.8 MB. The
  // pooled gradient takes 3.2 MB, beside one micro-batch's maps. All maps of the batch: 103 MB.
  EXPECT_LT(peak_bytes(test.device(), MemoryCategory::activations), 20'000'000u);
}

// Logs the calls: "+" at the begin of each, "-" at its end.
class CallLog final : public LayerObserver {
 public:
  std::vector<std::string> lines;
  void begin_call(std::size_t call, Stream&) override {
    lines.push_back("+" + std::to_string(call));
  }
  void end_call(std::size_t call, Stream&) override { lines.push_back("-" + std::to_string(call)); }
};

TEST(Graph, TellsItsObserverOfEveryCallInTheOrderOfTheirNames) {
  TestGraph test(simple_cnn(), onednn, {.batch = 16, .micro_batch = 4});
  const auto& names = test.graph().call_names();
  CallLog log;
  test.graph().observe_layers(&log);
  test.train();
  test.graph().observe_layers(nullptr);
  test.train();
  ASSERT_EQ(log.lines.size(), 2 * names.size());
  for (std::size_t call = 0; call < names.size(); ++call) {
    EXPECT_EQ(log.lines[2 * call], "+" + std::to_string(call));
    EXPECT_EQ(log.lines[2 * call + 1], "-" + std::to_string(call));
  }
  EXPECT_EQ(names.front(), "conv1 forward, micro-batch 1 of 4");
  EXPECT_EQ(names.back(), "conv1 backward, micro-batch 1 of 4");
  EXPECT_NE(std::find(names.begin(), names.end(), "fc1+relu3 backward"), names.end());
}

TEST(Graph, AllocatesNothingInAStep) {
  TestGraph test(simple_cnn(), onednn, {.batch = 16, .micro_batch = 4});
  const MemoryUsage before = test.device().memory();
  test.train();
  const MemoryUsage after = test.device().memory();
  EXPECT_EQ(after.total_peak_bytes, before.total_peak_bytes);
  EXPECT_EQ(after.total_live_bytes, before.total_live_bytes);
}

TEST(Graph, ReadsItsInputAfreshInEveryForward) {
  for (const std::int64_t micro_batch : {0, 4}) {
    TestGraph test(simple_cnn(), onednn, {.batch = 8, .micro_batch = micro_batch});
    const std::vector<float> logits = test.forward();
    const std::vector<float> other(8 * 784, 0.5f);
    test.graph().forward(test.stream(), other.data());
    EXPECT_NE(std::memcmp(test.graph().output(), logits.data(), logits.size() * sizeof(float)), 0);
    EXPECT_EQ(test.forward(), logits);
  }
}

TEST(Graph, BackwardNeedsAForwardOfItsOwn) {
  TestGraph test(residual_network(), reference, {.batch = 2});
  EXPECT_THROW(test.graph().backward(test.stream()), InternalError);
  test.train();
  EXPECT_THROW(test.graph().backward(test.stream()), InternalError);
}

TEST(Graph, ChoosesMicroBatchesByTheDevicesCache) {
  TestGraph test(simple_cnn(), onednn, {.batch = 64});
  // The largest pair of maps of one sample: conv1's, 32 x 28 x 28, and its pooled map.
  const auto pair = static_cast<std::size_t>(32 * (28 * 28 + 14 * 14)) * sizeof(float);
  EXPECT_EQ(test.graph().micro_batch(),
            choose_micro_batch(64, test.backend().micro_batch_hint(pair)));
}

TEST(Graph, RefusesAnEmptyBatch) {
  EXPECT_THROW(TestGraph(simple_cnn(), reference, {.batch = 0}), InternalError);
}

TEST(Graph, AsksForItsMemoryBeforeAnythingIsAllocated) {
  const auto backend = ops::make_reference_backend();
  SmallDevice device(5 << 20);
  const auto admit = [&](const ParameterPlan& plan, MemoryNeeds& needs) {
    EXPECT_EQ(device.allocations, 0);
    EXPECT_EQ(plan.flat_bytes, 1686592u);
    check_claims({{needs.claim("simple_cnn", "use a smaller batch")}});
  };
  try {
    Graph graph(simple_cnn(), device, *backend, {.batch = 64, .admit = admit});
    FAIL() << "a graph of " << graph.model().name;
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("simple_cnn needs "));
    EXPECT_THAT(error.what(), HasSubstr("small:0, which has 5242880 free; use a smaller batch\n"));
    EXPECT_THAT(error.what(), HasSubstr("\n  weights               1686592\n"));
    EXPECT_THAT(error.what(), HasSubstr("\n  activations "));
    EXPECT_THAT(error.what(), HasSubstr("\n  sum "));
  }
  EXPECT_EQ(device.allocations, 0);
}

TEST(Graph, AsksForWhatItAllocates) {
  const auto backend = ops::make_reference_backend();
  SmallDevice device(std::size_t{1} << 30);
  CategoryBytes planned{};
  const auto admit = [&](const ParameterPlan&, MemoryNeeds& needs) {
    planned = needs.by_category();
  };
  Graph graph(simple_cnn(), device, *backend, {.batch = 4, .admit = admit});
  for (std::size_t i = 0; i < graph.plan().parameters.size(); ++i) {
    graph.export_parameter(i, graph.weights().view());
  }
  EXPECT_EQ(planned, device.memory().peak_bytes);
}

TEST(Graph, EqualNetworksHaveEqualHashesAndOthersDoNot) {
  TestGraph a(simple_cnn(), onednn, {.batch = 16, .micro_batch = 4});
  TestGraph b(simple_cnn(), onednn, {.batch = 16, .micro_batch = 4});
  TestGraph c(load_model_file(model_path("lenet5")), onednn, {.batch = 16, .micro_batch = 4});
  EXPECT_EQ(a.graph().plan().hash, b.graph().plan().hash);
  EXPECT_NE(a.graph().plan().hash, c.graph().plan().hash);
}

}  // namespace
}  // namespace ddpbench::nn
