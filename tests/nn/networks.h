// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Networks, and a graph with its device and backend, for the tests of this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/nn/graph.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"

namespace ddpbench::nn {

std::string model_path(const std::string& name);  // configs/models/<name>.json
ModelSpec simple_cnn();
// Every layer type on [2, 6, 6]. Three layers read the first map.
ModelSpec residual_network();
// On [3, 10, 9]: branches of grouped and dilated convolutions and average pools, joined by concat
// with each other, with themselves and with the network's input.
ModelSpec joined_network();
std::string joined_network_text();  // the same as a model file
// On [3, 8, 7]: batch norm behind convolutions of 18 channels, with ReLU, with a sum of two of them
// and ReLU, without either, and without parameters.
ModelSpec normalized_network();
// On [1, 8, 8]: a pool and another convolution read one convolution.
ModelSpec forked_network();

// Uniform in [-1, 1), the same on every machine.
std::vector<float> random_values(std::size_t count, std::uint32_t seed);

// Runs a script of this folder on `folder`, with the distribution's Python if there is one, which
// finds the distribution's PyTorch. Returns its exit status; -1 when a signal ended it.
inline constexpr int kNoTorch = 77;  // the scripts' status where there is no PyTorch
int run_python(const std::string& script, const std::string& folder);

using BackendMaker = std::function<std::unique_ptr<ops::OpBackend>(Device&)>;
std::unique_ptr<ops::OpBackend> reference(Device& device);
std::unique_ptr<ops::OpBackend> onednn(Device& device);

// A graph on a CPU device of its own, with weights from seed 1 and a fixed random batch.
class TestGraph {
 public:
  TestGraph(const ModelSpec& model, const BackendMaker& backend, const GraphOptions& options);

  Graph& graph() { return *graph_; }
  Stream& stream() { return *stream_; }
  Device& device() { return *device_; }
  ops::OpBackend& backend() { return *backend_; }
  const float* input() const { return reinterpret_cast<const float*>(input_.data()); }

  std::vector<float> forward();  // the logits
  // Forward, then backward of sum(coefficients * logits) with fixed random coefficients.
  void train(bool accumulate = false, const GradientReady& ready = {});
  const std::vector<float>& coefficients() const { return coefficients_; }
  // The same sum, in double precision.
  double loss();

  // In PyTorch's layout.
  std::vector<float> gradient(std::size_t parameter) const;
  std::vector<float> weight(std::size_t parameter) const;
  void set_weight(std::size_t parameter, const std::vector<float>& values);
  // The flat gradient buffer, bit by bit.
  std::vector<std::byte> gradient_bytes() const;

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<ops::OpBackend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Graph> graph_;
  Buffer input_;
  std::vector<float> coefficients_;
};

}  // namespace ddpbench::nn
