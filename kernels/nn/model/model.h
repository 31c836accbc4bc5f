// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A network as data: its layers in topological order, with all shapes known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/flat_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::nn {

enum class LayerType : std::uint8_t {
  conv2d,
  relu,
  max_pool2d,
  linear,
  add,
  avg_pool2d,
  adaptive_avg_pool2d,
  concat,
  batch_norm2d,
  dropout,
  relu6,
  tanh,
  sigmoid,
  upsample_bilinear,
};
// The words of "type" in a model file, by LayerType.
inline constexpr auto kLayerTypeNames = std::to_array<std::string_view>(
    {"conv2d", "relu", "max_pool2d", "linear", "add", "avg_pool2d", "adaptive_avg_pool2d", "concat",
     "batch_norm2d", "dropout", "relu6", "tanh", "sigmoid", "upsample_bilinear"});
constexpr std::string_view to_string(LayerType type) {
  return kLayerTypeNames[static_cast<std::size_t>(type)];
}

// The index of the network's input, where other indices are of layers.
inline constexpr int kNetworkInput = -1;

// How weights and biases of conv2d and linear begin. fan_in and fan_out are PyTorch's: the inputs
// of an output unit, and outputs x positions of the kernel.
enum class InitKind : std::uint8_t {
  uniform_fan_in,  // both uniform in +-1/sqrt(fan_in): the default of PyTorch's layers
  normal_fan_out,  // weights normal with variance 2/fan_out, biases 0: torchvision's convolutions
                   // (He et al., "Delving Deep into Rectifiers", ICCV 2015)
  normal           // weights normal with a given deviation, biases 0
};
// The words of "init" in a model file, by InitKind. A normal distribution is a number there.
inline constexpr auto kInitNames =
    std::to_array<std::string_view>({"uniform_fan_in", "normal_fan_out"});
struct Init {
  InitKind kind = InitKind::uniform_fan_in;
  double deviation = 0;  // of normal
  bool operator==(const Init&) const = default;
};

// A new field takes part in content_hash().
struct LayerSpec {
  std::string name;
  LayerType type = LayerType::relu;
  std::vector<int> inputs;  // indices into layers, or kNetworkInput
  std::int64_t out = 0;     // conv2d: output channels; linear: output features
  ops::Window2d window;     // conv2d, max_pool2d and avg_pool2d
  bool bias = true;
  ops::Dilation2d dilation;  // conv2d, as the next
  std::int64_t groups = 1;
  bool count_include_pad = true;      // avg_pool2d
  std::int64_t out_h = 0, out_w = 0;  // adaptive_avg_pool2d and upsample_bilinear
  double eps = 1e-5, momentum = 0.1;  // batch_norm2d, as the next
  bool affine = true;
  double drop_probability = 0.5;  // dropout
  Init init;                      // conv2d and linear
  bool trainable = true;          // false: its parameters stay as they are
  ops::Shape output_shape;        // without the batch: [channels, h, w] or [features]
};

// Whether the layer multiplies by a matrix of weights.
constexpr bool has_weights(LayerType type) {
  return type == LayerType::conv2d || type == LayerType::linear;
}

// The operation of a layer that reads `inputs`, as far as the layer tells it.
ops::OpDesc operation_of(const LayerSpec& layer, const std::vector<ops::TensorLayout>& inputs);
// Its plan for kPlannedSamples samples whose shapes are `inputs`. Throws ConfigError where they do
// not fit. Batch norm needs two samples.
inline constexpr std::int64_t kPlannedSamples = 2;
ops::OpPlan plan_of(const LayerSpec& layer, const std::vector<ops::Shape>& inputs);

// Cross-entropy (ops::CrossEntropyDesc). A new field takes part in hash_losses().
struct LossSpec {
  double label_smoothing = 0;
  std::int32_t ignore_index = ops::kIgnoresNothing;
};

// A further output that is trained for the same labels and evaluated nowhere (Szegedy et al.,
// "Going deeper with convolutions", CVPR 2015). Its logits have the shape of the output's.
struct AuxiliaryOutput {
  int layer = -1;     // index of the layer
  double weight = 1;  // of its loss in the total
  double label_smoothing = 0;
};

struct ModelSpec {
  std::string name;
  ops::Shape input_shape;         // without the batch: [channels, h, w]
  std::vector<LayerSpec> layers;  // in topological order
  int output = -1;                // index of the layer whose output is the logits
  LossSpec loss;
  std::vector<AuxiliaryOutput> auxiliary;
  std::size_t output_count() const { return 1 + auxiliary.size(); }
  // Index of the layer of output k: 0 is the output, the others are auxiliary.
  int output_layer(std::size_t k) const { return k == 0 ? output : auxiliary[k - 1].layer; }
  // The shape of the logits without the batch: [classes], or [classes, h, w] for a prediction each
  // pixel.
  const ops::Shape& logits_shape() const;
  std::int64_t classes() const { return logits_shape()[0]; }
  std::int64_t predictions() const;      // of a sample, as are its labels: 1, or h * w
  std::int64_t parameter_count() const;  // all
  // These count the elements and the tensors that are trained.
  std::int64_t trained_count() const;
  std::int64_t tensor_count() const;
  // What training changes and no gradient does, as running statistics: all values, and tensors.
  std::int64_t state_count() const;
  std::int64_t state_tensor_count() const;
  bool has_state() const { return state_tensor_count() > 0; }
  // Without the batch: the outputs of the layers that `layer` reads, or the network's input.
  std::vector<ops::Shape> inputs_of(const LayerSpec& layer) const;
  ops::OpPlan plan_of(const LayerSpec& layer) const { return nn::plan_of(layer, inputs_of(layer)); }
};

// A hash of what the network computes and of its layers' names: equal for equal networks in any
// file, however it is laid out. The network's name takes no part.
std::uint64_t content_hash(const ModelSpec& model);
// Adds what is trained for: nothing where that is the mean of plain cross-entropy over all samples.
std::uint64_t hash_losses(std::uint64_t hash, const ModelSpec& model);

// The loss of output k for `batch` samples. All of them together are the total, which is trained
// for; only the first counts hits.
ops::CrossEntropyDesc loss_of(const ModelSpec& model, std::size_t k, std::int64_t batch);

// What training a network costs a sample, from its description alone.
struct ModelCost {
  std::int64_t parameters = 0, trained = 0;
  // Floating-point operations a sample of convolutions and linear layers, a multiply-add as two.
  // All else adds about 1 %. Backward computes the gradients of weights, and of inputs that depend
  // on parameters, each with as many operations as forward.
  double forward_flops = 0, backward_flops = 0;
  // The outputs of all layers in fp32, a sample. A ReLU that alone reads its input works in place.
  std::int64_t activation_bytes = 0;

  std::int64_t gradient_bytes() const { return trained * static_cast<std::int64_t>(sizeof(float)); }
  double step_flops() const { return forward_flops + backward_flops; }
  // What a step sends for what it computes, for one sample a device; 0 where nothing counts.
  double gradient_bytes_per_flop() const {
    return step_flops() > 0 ? static_cast<double>(gradient_bytes()) / step_flops() : 0;
  }
};

ModelCost cost_of(const ModelSpec& model);
// [layer] Its part of ModelCost::step_flops().
std::vector<double> step_flops_of_layers(const ModelSpec& model);

}  // namespace ddpbench::nn
