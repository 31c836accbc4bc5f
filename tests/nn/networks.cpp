// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
#include "tests/nn/networks.h"

#include <fmt/format.h>

#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "kernels/nn/weights.h"
#include "kernels/runtime/cpu_device.h"

namespace ddpbench::nn {

std::string model_path(const std::string& name) {
  return std::string(DDPBENCH_SOURCE_DIR) + "/configs/models/" + name + ".json";
}

ModelSpec simple_cnn() { return load_model_file(model_path("simple_cnn")); }

ModelSpec residual_network() {
  return parse_model(R"({"name": "residual", "input": [2, 6, 6], "layers": [
    {"name": "stem", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
    {"name": "stem_relu", "type": "relu"},
    {"name": "left", "type": "conv2d", "inputs": ["stem_relu"], "out_channels": 4, "kernel": 3, "padding": 1},
    {"name": "left_relu", "type": "relu"},
    {"name": "right", "type": "conv2d", "inputs": ["stem_relu"], "out_channels": 4, "kernel": 1, "bias": false},
    {"name": "branches", "type": "add", "inputs": ["left_relu", "right"]},
    {"name": "skip", "type": "add", "inputs": ["branches", "stem_relu"]},
    {"name": "skip_relu", "type": "relu"},
    {"name": "pool", "type": "max_pool2d", "kernel": 2},
    {"name": "hidden", "type": "linear", "out_features": 7},
    {"name": "hidden_relu", "type": "relu"},
    {"name": "again", "type": "linear", "out_features": 7},
    {"name": "hidden_sum", "type": "add", "inputs": ["hidden_relu", "again"]},
    {"name": "head", "type": "linear", "out_features": 3}]})",
                     "residual.json");
}

std::string joined_network_text() {
  return R"({"name": "joined", "input": [3, 10, 9], "layers": [
    {"name": "first", "type": "conv2d", "out_channels": 16, "kernel": 3, "padding": 1},
    {"name": "first_relu", "type": "relu"},
    {"name": "plain", "type": "conv2d", "inputs": ["first_relu"], "out_channels": 16, "kernel": 1},
    {"name": "right", "type": "conv2d", "inputs": ["first_relu"], "out_channels": 32, "kernel": 3,
     "padding": 2, "dilation": 2, "groups": 4},
    {"name": "right_relu", "type": "relu"},
    {"name": "smooth", "type": "avg_pool2d", "inputs": ["first_relu"], "kernel": 3, "stride": 1,
     "padding": 1},
    {"name": "branches", "type": "concat", "inputs": ["plain", "right_relu", "smooth"]},
    {"name": "with_input", "type": "concat", "inputs": ["branches", "input", "branches"]},
    {"name": "squeeze", "type": "conv2d", "out_channels": 10, "kernel": 1},
    {"name": "halves", "type": "avg_pool2d", "kernel": 2, "padding": 1, "count_include_pad": false},
    {"name": "grown", "type": "upsample_bilinear", "output_size": [9, 7]},
    {"name": "windows", "type": "adaptive_avg_pool2d", "output_size": [4, 3]},
    {"name": "mean", "type": "adaptive_avg_pool2d", "inputs": ["halves"], "output_size": 1},
    {"name": "hidden", "type": "linear", "inputs": ["windows"], "out_features": 7},
    {"name": "other", "type": "linear", "inputs": ["mean"], "out_features": 4},
    {"name": "features", "type": "concat", "inputs": ["hidden", "other"]},
    {"name": "head", "type": "linear", "out_features": 3}]})";
}

ModelSpec joined_network() { return parse_model(joined_network_text(), "joined.json"); }

ModelSpec normalized_network() {
  return parse_model(R"({"name": "normalized", "input": [3, 8, 7], "layers": [
    {"name": "stem", "type": "conv2d", "out_channels": 18, "kernel": 3, "padding": 1, "bias": false},
    {"name": "stem_norm", "type": "batch_norm2d", "num_features": 18},
    {"name": "stem_relu", "type": "relu"},
    {"name": "left", "type": "conv2d", "out_channels": 18, "kernel": 3, "padding": 1, "bias": false},
    {"name": "left_norm", "type": "batch_norm2d", "momentum": 0.3, "eps": 0.001},
    {"name": "right", "type": "conv2d", "inputs": ["stem_relu"], "out_channels": 18, "kernel": 1, "bias": false},
    {"name": "right_norm", "type": "batch_norm2d"},
    {"name": "sum", "type": "add", "inputs": ["left_norm", "right_norm"]},
    {"name": "sum_relu", "type": "relu"},
    {"name": "last_norm", "type": "batch_norm2d", "affine": false},
    {"name": "pool", "type": "max_pool2d", "kernel": 2},
    {"name": "head", "type": "linear", "out_features": 3}]})",
                     "normalized.json");
}

ModelSpec forked_network() {
  return parse_model(R"({"name": "forked", "input": [1, 8, 8], "layers": [
    {"name": "stem", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
    {"name": "pool", "type": "max_pool2d", "kernel": 2, "inputs": ["stem"]},
    {"name": "side", "type": "conv2d", "out_channels": 4, "kernel": 2, "stride": 2,
     "inputs": ["stem"]},
    {"name": "sum", "type": "add", "inputs": ["pool", "side"]},
    {"name": "head", "type": "linear", "out_features": 3}]})",
                     "forked.json");
}

std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  // The top 24 bits are exact in a float. std::uniform_real_distribution may give other values.
  for (float& value : values) value = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
  return values;
}

int run_python(const std::string& script, const std::string& folder) {
  const char* const python =
      std::filesystem::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
  const std::string path = std::string(DDPBENCH_SOURCE_DIR) + "/tests/nn/" + script;
  // Bytecode would be left in the source tree.
  const int status =
      std::system(fmt::format("\"{}\" -B \"{}\" \"{}\"", python, path, folder).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::unique_ptr<ops::OpBackend> reference(Device&) { return ops::make_reference_backend(); }
std::unique_ptr<ops::OpBackend> onednn(Device& device) { return ops::make_onednn_backend(device); }

TestGraph::TestGraph(const ModelSpec& model, const BackendMaker& backend,
                     const GraphOptions& options)
    : device_(make_cpu_device({})),
      backend_(backend(*device_)),
      stream_(device_->make_stream()),
      graph_(std::make_unique<Graph>(model, *device_, *backend_, options)) {
  initialize_parameters(*graph_, 1);
  const auto samples = static_cast<std::size_t>(options.batch);
  const auto values =
      random_values(samples * static_cast<std::size_t>(ops::element_count(model.input_shape)), 2);
  input_ = device_->allocate(values.size() * sizeof(float), MemoryCategory::input);
  std::memcpy(input_.data(), values.data(), input_.bytes());
  coefficients_ = random_values(
      samples * static_cast<std::size_t>(ops::element_count(model.logits_shape())), 3);
}

std::vector<float> TestGraph::forward() {
  graph_->forward(*stream_, input());
  stream_->synchronize();
  return {graph_->output(), graph_->output() + coefficients_.size()};
}

void TestGraph::train(bool accumulate, const GradientReady& ready) {
  forward();
  for (std::size_t k = 0; k < graph_->model().output_count(); ++k) {
    std::memcpy(graph_->output_gradient(k), coefficients_.data(),
                coefficients_.size() * sizeof(float));
  }
  graph_->backward(*stream_, ready, accumulate);
  stream_->synchronize();
}

double TestGraph::loss() {
  const std::vector<float> logits = forward();
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += static_cast<double>(logits[i]) * static_cast<double>(coefficients_[i]);
  }
  return sum;
}

std::vector<float> TestGraph::gradient(std::size_t parameter) const {
  return graph_->export_parameter(parameter, graph_->gradients().view());
}

std::vector<float> TestGraph::weight(std::size_t parameter) const {
  return graph_->export_parameter(parameter, graph_->weights().view());
}

void TestGraph::set_weight(std::size_t parameter, const std::vector<float>& values) {
  graph_->import_parameter(parameter, values, graph_->weights().view());
}

std::vector<std::byte> TestGraph::gradient_bytes() const {
  const BufferView view = graph_->gradients().view();
  return {view.data, view.data + view.bytes};
}

}  // namespace ddpbench::nn
