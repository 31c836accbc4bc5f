// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Dropout within networks: which samples see which mask, from step to step, and what model files
// say of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::int64_t kBatch = 8, kFeatures = 36;
constexpr auto kSampleFeatures = static_cast<std::size_t>(kFeatures);

// Its logits are its input, with what is dropped set to 0: the head's weights are a unit matrix. A
// pool of single elements may run in micro-batches, and so may the dropout behind it.
ModelSpec mask_network() {
  return parse_model(R"({"name": "mask", "input": [4, 3, 3], "layers": [
    {"name": "pool", "type": "max_pool2d", "kernel": 1},
    {"name": "drop", "type": "dropout", "p": 0.5},
    {"name": "head", "type": "linear", "out_features": 36, "bias": false}]})",
                     "mask.json");
}

class MaskGraph {
 public:
  MaskGraph(const BackendMaker& backend, const GraphOptions& options)
      : test_(mask_network(), backend, options), batch_(options.batch) {
    std::vector<float> unit(kSampleFeatures * kSampleFeatures, 0.0F);
    for (std::size_t i = 0; i < kSampleFeatures; ++i) unit[i * (kSampleFeatures + 1)] = 1;
    test_.set_weight(0, unit);
    ones_ = test_.device().allocate(
        static_cast<std::size_t>(kBatch) * kSampleFeatures * sizeof(float), MemoryCategory::input);
    std::ranges::fill(ones_.view().as<float>(), 1.0F);
  }
  // [sample][feature]: 0 or the scale, 2.
  std::vector<std::vector<float>> forward(const ops::SamplePlaces& places = {},
                                          ops::Mode mode = ops::Mode::training) {
    Graph& graph = test_.graph();
    graph.forward(test_.stream(), ones_.view().as<float>().data(), mode, places);
    test_.stream().synchronize();
    std::vector<std::vector<float>> rows;
    for (std::int64_t i = 0; i < batch_; ++i) {
      rows.emplace_back(graph.output() + i * kFeatures, graph.output() + (i + 1) * kFeatures);
    }
    return rows;
  }
  void end_step() { test_.graph().end_step(test_.stream()); }
  void reset() { test_.graph().set_steps(test_.stream(), 0); }

 private:
  TestGraph test_;
  std::int64_t batch_;
  Buffer ones_;
};

TEST(DropoutNetwork, DropsTheSameOnEveryBackendAndInMicroBatches) {
  const auto want = MaskGraph(reference, {.batch = kBatch, .seed = 3}).forward();
  EXPECT_EQ(MaskGraph(onednn, {.batch = kBatch, .seed = 3}).forward(), want);
  EXPECT_EQ(MaskGraph(onednn, {.batch = kBatch, .seed = 3, .micro_batch = 2}).forward(), want);
  EXPECT_NE(MaskGraph(onednn, {.batch = kBatch, .seed = 4}).forward(), want);
}

TEST(DropoutNetwork, DropsByThePlaceInTheGlobalBatch) {
  const auto want = MaskGraph(onednn, {.batch = kBatch}).forward();
  for (const std::int64_t parts : {2, 4}) {
    const std::int64_t part = kBatch / parts;
    MaskGraph graph(onednn, {.batch = part, .micro_batch = part / 2});
    for (std::int64_t p = 0; p < parts; ++p) {
      const auto got = graph.forward({.first = p, .parts = parts, .part = part});
      for (std::int64_t j = 0; j < part; ++j) {
        EXPECT_EQ(got[static_cast<std::size_t>(j)], want[static_cast<std::size_t>(p + j * parts)]);
      }
    }
  }
}

TEST(DropoutNetwork, DropsAnewInEachStepAndTheSameAfterAReset) {
  MaskGraph graph(onednn, {.batch = kBatch});
  const auto first = graph.forward();
  EXPECT_EQ(graph.forward(), first);  // a further pass of the same step
  graph.end_step();
  const auto second = graph.forward();
  EXPECT_NE(second, first);
  graph.reset();
  EXPECT_EQ(graph.forward(), first);
  graph.end_step();
  EXPECT_EQ(graph.forward(), second);
}

TEST(DropoutNetwork, DropsNothingInAnEvaluation) {
  MaskGraph graph(onednn, {.batch = kBatch, .micro_batch = 2});
  EXPECT_THAT(graph.forward({}, ops::Mode::evaluation), Each(Each(1.0F)));
}

// The gradient of an element that was dropped is 0, so the sum over a batch shows which were kept.
// It is also the sum of those of the parts, each accumulated with its own masks.
TEST(DropoutNetwork, AccumulatesTheGradientsOfPartsToThoseOfTheBatch) {
  const ModelSpec model = parse_model(R"({"name": "sum", "input": [1, 6, 6], "layers": [
    {"name": "first", "type": "linear", "out_features": 36},
    {"name": "drop", "type": "dropout", "p": 0.5},
    {"name": "head", "type": "linear", "out_features": 2}]})",
                                      "sum.json");
  constexpr std::int64_t kParts = 2, kPart = kBatch / kParts, kSample = 36;
  TestGraph whole(model, onednn, {.batch = kBatch}), parts(model, onednn, {.batch = kPart});
  const auto set_gradient = [&](TestGraph& test, std::int64_t batch) {
    std::fill_n(test.graph().output_gradient(), batch * 2, 1.0F);
  };
  whole.graph().forward(whole.stream(), whole.input());
  set_gradient(whole, kBatch);
  whole.graph().backward(whole.stream());
  // Part p has samples p, p + 2, ... of the batch.
  std::vector<float> images(static_cast<std::size_t>(kPart * kSample));
  for (std::int64_t p = 0; p < kParts; ++p) {
    for (std::int64_t j = 0; j < kPart; ++j) {
      std::copy_n(whole.input() + (p + j * kParts) * kSample, kSample,
                  images.begin() + j * kSample);
    }
    parts.graph().forward(parts.stream(), images.data(), ops::Mode::training,
                          {.first = p, .parts = kParts, .part = kPart});
    set_gradient(parts, kPart);
    parts.graph().backward(parts.stream(), {}, p > 0);
  }
  // Sums of 8 products of values below 4, in another order.
  for (std::size_t i = 0; i < whole.graph().plan().parameters.size(); ++i) {
    const std::vector<float> want = whole.gradient(i), got = parts.gradient(i);
    for (std::size_t k = 0; k < want.size(); ++k) EXPECT_NEAR(got[k], want[k], 8 * 4 * 8 * 0x1p-24);
  }
}

ModelSpec with_dropout(const std::string& more) {
  return parse_model(R"({"name": "m", "input": [1, 4, 4], "layers": [
      {"name": "d", "type": "dropout")" +
                         more + R"(},
      {"name": "fc", "type": "linear", "out_features": 2}]})",
                     "m.json");
}

TEST(DropoutLayer, HasPyTorchsDefault) {
  EXPECT_EQ(with_dropout("").layers[0].drop_probability, 0.5);
  EXPECT_EQ(with_dropout(R"(, "p": 0)").layers[0].drop_probability, 0);
  EXPECT_EQ(with_dropout("").layers[0].output_shape, (ops::Shape{1, 4, 4}));
}

TEST(DropoutLayer, TakesPartInTheHash) {
  EXPECT_EQ(content_hash(with_dropout("")), content_hash(with_dropout(R"(, "p": 0.5)")));
  EXPECT_NE(content_hash(with_dropout("")), content_hash(with_dropout(R"(, "p": 0.4)")));
}

TEST(DropoutLayer, RefusesWhatIsNoProbabilityBelowOne) {
  for (const auto& [p, words] :
       std::vector<std::pair<std::string, std::string>>{{"1", "it must be less"},
                                                        {"-0.1", "from 0 to 1"},
                                                        {"2", "from 0 to 1"},
                                                        {R"("half")", "number"}}) {
    EXPECT_THAT(
        [&] { with_dropout(R"(, "p": )" + p); },
        testing::ThrowsMessage<ConfigError>(AllOf(HasSubstr("/layers/0/p"), HasSubstr(words))))
        << p;
  }
}

}  // namespace
}  // namespace ddpbench::nn
