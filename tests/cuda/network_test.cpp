// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole networks on the CUDA backend against the reference backend: operations fit with what
// lowering inserts between them (reorders, other types, sums of gradients).
#include <algorithm>
#include <cmath>

#include "kernels/nn/graph.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/weights.h"
#include "tests/cuda/cuda_fixture.h"

namespace ddpbench::ops::testing {
namespace {

using CudaNetwork = CudaOps;

constexpr std::int64_t kBatch = 3;

nn::ModelSpec chain() {
  return nn::parse_model(R"({"name": "chain", "input": [1, 12, 12], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 8, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "max_pool2d", "kernel": 2},
    {"name": "conv2", "type": "conv2d", "out_channels": 6, "kernel": 3, "padding": 1},
    {"name": "relu2", "type": "relu"},
    {"name": "pool2", "type": "max_pool2d", "kernel": 2},
    {"name": "fc1", "type": "linear", "out_features": 20},
    {"name": "relu3", "type": "relu"},
    {"name": "fc2", "type": "linear", "out_features": 5}]})",
                         "chain.json");
}

nn::ModelSpec residual() {
  return nn::parse_model(R"({"name": "residual", "input": [2, 6, 6], "layers": [
    {"name": "stem", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
    {"name": "stem_relu", "type": "relu"},
    {"name": "left", "type": "conv2d", "inputs": ["stem_relu"], "out_channels": 4, "kernel": 3, "padding": 1},
    {"name": "left_relu", "type": "relu"},
    {"name": "right", "type": "conv2d", "inputs": ["stem_relu"], "out_channels": 4, "kernel": 1, "bias": false},
    {"name": "branches", "type": "add", "inputs": ["left_relu", "right"]},
    {"name": "skip", "type": "add", "inputs": ["branches", "stem_relu"]},
    {"name": "skip_relu", "type": "relu"},
    {"name": "hidden", "type": "linear", "out_features": 7},
    {"name": "head", "type": "linear", "out_features": 3}]})",
                         "residual.json");
}

// Pools behind convolutions with biases, over odd maps, with and without a ReLU.
nn::ModelSpec pooled() {
  return nn::parse_model(R"({"name": "pooled", "input": [2, 13, 11], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 8, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "max_pool2d", "kernel": 2},
    {"name": "conv2", "type": "conv2d", "out_channels": 16, "kernel": 3, "padding": 1},
    {"name": "pool2", "type": "max_pool2d", "kernel": 2},
    {"name": "fc", "type": "linear", "out_features": 5}]})",
                         "pooled.json");
}

// Its first convolution may run on own kernels. Both pools lie before another kind of layer.
nn::ModelSpec joined() {
  return nn::parse_model(R"({"name": "joined", "input": [1, 13, 18], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 8, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "max_pool2d", "kernel": 2},
    {"name": "conv2", "type": "conv2d", "out_channels": 16, "kernel": 3, "padding": 1},
    {"name": "relu2", "type": "relu"},
    {"name": "pool2", "type": "max_pool2d", "kernel": 2},
    {"name": "fc", "type": "linear", "out_features": 5}]})",
                         "joined.json");
}

// Branches of grouped and dilated convolutions and average pools, joined with each other and with
// the network's input.
nn::ModelSpec branched() {
  return nn::parse_model(R"({"name": "branched", "input": [3, 8, 7], "layers": [
    {"name": "stem", "type": "conv2d", "out_channels": 8, "kernel": 3, "padding": 1},
    {"name": "stem_relu", "type": "relu"},
    {"name": "groups", "type": "conv2d", "inputs": ["stem_relu"], "out_channels": 16, "kernel": 3,
     "padding": 2, "dilation": 2, "groups": 4},
    {"name": "smooth", "type": "avg_pool2d", "inputs": ["stem_relu"], "kernel": 3, "stride": 1,
     "padding": 1},
    {"name": "branches", "type": "concat", "inputs": ["input", "groups", "smooth"]},
    {"name": "again", "type": "concat", "inputs": ["branches", "smooth"]},
    {"name": "squeeze", "type": "conv2d", "out_channels": 6, "kernel": 1},
    {"name": "windows", "type": "adaptive_avg_pool2d", "output_size": [3, 2]},
    {"name": "mean", "type": "adaptive_avg_pool2d", "inputs": ["squeeze"], "output_size": 1},
    {"name": "hidden", "type": "linear", "inputs": ["windows"], "out_features": 5},
    {"name": "other", "type": "linear", "inputs": ["mean"], "out_features": 4},
    {"name": "features", "type": "concat", "inputs": ["hidden", "other"]},
    {"name": "head", "type": "linear", "out_features": 3}]})",
                         "branched.json");
}

// Batch norm with a ReLU, with a sum and a ReLU, and without parameters.
nn::ModelSpec normalized() {
  return nn::parse_model(R"({"name": "normalized", "input": [3, 8, 7], "layers": [
    {"name": "stem", "type": "conv2d", "out_channels": 8, "kernel": 3, "padding": 1, "bias": false},
    {"name": "stem_norm", "type": "batch_norm2d"},
    {"name": "stem_relu", "type": "relu"},
    {"name": "left", "type": "conv2d", "out_channels": 8, "kernel": 3, "padding": 1, "bias": false},
    {"name": "left_norm", "type": "batch_norm2d"},
    {"name": "sum", "type": "add", "inputs": ["left_norm", "stem_relu"]},
    {"name": "sum_relu", "type": "relu"},
    {"name": "last_norm", "type": "batch_norm2d", "affine": false},
    {"name": "head", "type": "linear", "out_features": 3}]})",
                         "normalized.json");
}

// Dropout on maps, within micro-batches where there are some, and on features.
nn::ModelSpec dropping() {
  return nn::parse_model(R"({"name": "dropping", "input": [1, 8, 8], "layers": [
    {"name": "conv", "type": "conv2d", "out_channels": 6, "kernel": 3},
    {"name": "drop_maps", "type": "dropout", "p": 0.25},
    {"name": "hidden", "type": "linear", "out_features": 40},
    {"name": "relu", "type": "relu"},
    {"name": "drop", "type": "dropout"},
    {"name": "head", "type": "linear", "out_features": 3}]})",
                         "dropping.json");
}

struct Step {
  Values logits;
  std::vector<Values> gradients;
  std::vector<double> state;
};

Step train(BackendFixture& fixture, const nn::ModelSpec& model, Execution execution,
           std::optional<std::int64_t> micro_batch = {}) {
  nn::Graph graph(model, fixture.device(), fixture.backend(),
                  {.batch = kBatch, .micro_batch = micro_batch});
  EXPECT_EQ(graph.micro_batch(), micro_batch.value_or(graph.micro_batch()));
  const OpMemory input =
      fixture.upload(random_values(kBatch * element_count(model.input_shape), 2));
  // Remembered values of other weights must not count.
  nn::initialize_parameters(graph, 7);
  graph.forward(fixture.stream(), reinterpret_cast<const float*>(input.data()));
  fixture.stream().synchronize();
  nn::initialize_parameters(graph, 1);
  const OpMemory gradient = fixture.upload(random_values(kBatch * model.classes(), 3));
  const auto step = [&] {
    graph.forward(fixture.stream(), reinterpret_cast<const float*>(input.data()));
    fixture.device().copy(fixture.stream(),
                          {reinterpret_cast<std::byte*>(graph.output_gradient()), gradient.bytes()},
                          {gradient.data(), gradient.bytes()});
    graph.backward(fixture.stream());
  };
  step();
  fixture.stream().synchronize();
  if (execution == Execution::recorded) {
    fixture.stream().begin_recording();
    step();
    fixture.stream().end_recording()->replay(fixture.stream());
    fixture.stream().synchronize();
  }
  Step result;
  result.logits.resize(static_cast<std::size_t>(kBatch * model.classes()));
  const std::size_t bytes = result.logits.size() * sizeof(float);
  fixture.device().copy(fixture.stream(),
                        {reinterpret_cast<std::byte*>(result.logits.data()), bytes},
                        {reinterpret_cast<std::byte*>(graph.output()), bytes});
  fixture.stream().synchronize();
  for (std::size_t i = 0; i < graph.plan().parameters.size(); ++i)
    result.gradients.push_back(graph.export_parameter(i, graph.gradients().view()));
  result.state = nn::flat_state(nn::export_state(graph));
  return result;
}

// |got - want| over |want|, as vectors.
double relative_difference(const Values& got, const Values& want) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference / size);
}

// Roundings of random signs add up as vectors do: after some 10 operations the difference is about
// sqrt(10) units of the precision. 4 times that is allowed. A rounding may change a ReLU's or a
// pool's choice and so let one element's gradient in or out. Of these hundreds of elements a share
// of about one unit is that near, so the gradients differ by about the root of a unit.
double unit(CudaPrecision precision) {
  if (precision == CudaPrecision::fp32) return 0x1p-23;
  return precision == CudaPrecision::bf16 ? 0x1p-8 : 0x1p-10;
}

// Each second layer with parameters is frozen, from the second one on.
nn::ModelSpec half_frozen(nn::ModelSpec model) {
  bool trained = true;
  for (nn::LayerSpec& layer : model.layers) {
    if (model.plan_of(layer).parameters.empty()) continue;
    layer.trainable = trained;
    trained = !trained;
  }
  return model;
}

TEST_F(CudaNetwork, TrainsAsTheReferenceDoes) {
  for (const nn::ModelSpec& model :
       {chain(), residual(), pooled(), joined(), branched(), normalized(), dropping(),
        half_frozen(chain()), half_frozen(residual()), half_frozen(pooled()),
        half_frozen(branched()), half_frozen(normalized())}) {
    BackendFixture plain = BackendFixture::reference();
    const Step want = train(plain, model, Execution::direct);
    for (const CudaPrecision precision : precisions()) {
      SCOPED_TRACE(model.name + " in " + name_of(precision));
      BackendFixture fixture = cuda_backend({.precision = precision});
      const Step got = train(fixture, model, Execution::direct);
      EXPECT_LT(relative_difference(got.logits, want.logits), 13 * unit(precision));
      // A whole element is let in or out: in maps of 256 the share is no less than one of them.
      const double share = precision == CudaPrecision::fp16 ? 1.0 / 256 : unit(precision);
      const double bound = precision == CudaPrecision::fp32 ? 1e-5 : 4 * std::sqrt(share);
      ASSERT_EQ(got.state.size(), want.state.size());
      for (std::size_t i = 0; i < got.state.size(); ++i)
        EXPECT_NEAR(got.state[i], want.state[i], 13 * unit(precision)) << "state " << i;
      ASSERT_EQ(got.gradients.size(), want.gradients.size());
      for (std::size_t i = 0; i < want.gradients.size(); ++i)
        EXPECT_LT(relative_difference(got.gradients[i], want.gradients[i]), bound) << i;
    }
  }
}

TEST_F(CudaNetwork, ARecordedStepGivesTheSameBitsWhenDeterministic) {
  for (const CudaPrecision precision : precisions()) {
    SCOPED_TRACE(name_of(precision));
    BackendFixture fixture = cuda_backend({.precision = precision, .deterministic = true});
    const Step direct = train(fixture, chain(), Execution::direct);
    const Step recorded = train(fixture, chain(), Execution::recorded);
    EXPECT_TRUE(same_bits(recorded.logits, direct.logits));
    for (std::size_t i = 0; i < direct.gradients.size(); ++i)
      EXPECT_TRUE(same_bits(recorded.gradients[i], direct.gradients[i])) << i;
  }
}

// Each replay finds the number of its step on the device: it drops what the direct step drops.
TEST_F(CudaNetwork, ARecordedStepDropsAnewInEachReplay) {
  BackendFixture fixture = cuda_backend({.deterministic = true});
  const nn::ModelSpec model = dropping();
  const OpMemory input =
      fixture.upload(random_values(kBatch * element_count(model.input_shape), 2));
  const auto logits_of_steps = [&](Execution execution) {
    nn::Graph graph(model, fixture.device(), fixture.backend(), {.batch = kBatch, .seed = 5});
    nn::initialize_parameters(graph, 1);
    graph.set_steps(fixture.stream(), 0);
    const auto step = [&] {
      graph.forward(fixture.stream(), reinterpret_cast<const float*>(input.data()));
      graph.end_step(fixture.stream());
    };
    step();  // loads the kernels
    fixture.stream().synchronize();
    std::unique_ptr<Recording> recording;
    if (execution == Execution::recorded) {
      fixture.stream().begin_recording();
      step();
      recording = fixture.stream().end_recording();
    }
    std::vector<Values> logits;
    for (int i = 0; i < 3; ++i) {
      recording ? recording->replay(fixture.stream()) : step();
      logits.emplace_back(static_cast<std::size_t>(kBatch * model.classes()));
      const std::size_t bytes = logits.back().size() * sizeof(float);
      fixture.device().copy(fixture.stream(),
                            {reinterpret_cast<std::byte*>(logits.back().data()), bytes},
                            {reinterpret_cast<std::byte*>(graph.output()), bytes});
      fixture.stream().synchronize();
    }
    return logits;
  };
  const std::vector<Values> direct = logits_of_steps(Execution::direct);
  EXPECT_NE(direct[0], direct[1]);
  EXPECT_NE(direct[1], direct[2]);
  EXPECT_EQ(logits_of_steps(Execution::recorded), direct);
}

// Also with copies of the parameters that are rounded once for all micro-batches.
TEST_F(CudaNetwork, ComputesTheSameInMicroBatches) {
  for (const CudaPrecision precision : precisions()) {
    SCOPED_TRACE(name_of(precision));
    BackendFixture fixture =
        cuda_backend({.precision = precision, .convolutions = ConvolutionKernels::own});
    const Step whole = train(fixture, chain(), Execution::direct);
    const Step slices = train(fixture, chain(), Execution::direct, 1);
    const double bound = compute_type(precision) != DataType::fp32 ? 13 * unit(precision) : 1e-5;
    EXPECT_LT(relative_difference(slices.logits, whole.logits), bound);
    for (std::size_t i = 0; i < whole.gradients.size(); ++i)
      EXPECT_LT(relative_difference(slices.gradients[i], whole.gradients[i]), bound) << i;
  }
}

TEST_F(CudaNetwork, RoundsAllParametersInItsFirstCall) {
  for (const bool training : {true, false}) {
    BackendFixture fixture = cuda_backend({.precision = CudaPrecision::bf16});
    const nn::Graph graph(chain(), fixture.device(), fixture.backend(),
                          {.batch = kBatch, .training = training});
    EXPECT_EQ(graph.call_names()[0], "weights to bf16");
    EXPECT_EQ(std::ranges::count(graph.call_names(), "weights to bf16"), 1);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
