// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "kernels/nn/model/model_reader.h"
#include "kernels/nn/plan/fusion.h"
#include "tests/fuzz/entries.h"

namespace ddpbench::fuzz {
namespace {

constexpr const char* kName = "input.json";
constexpr std::size_t kLongestMessage = 4000;  // it may list the names of a layer's neighbours

void check_refusal(const std::string& message) {
  ensure(message.starts_with(kName), "no file: {}", message);
  ensure(message.size() <= kLongestMessage, "a message of {} bytes", message.size());
}

// What every user of a network relies on.
void check_network(const nn::ModelSpec& model) {
  const int count = static_cast<int>(model.layers.size());
  ensure(model.output >= 0 && model.output < count, "output {} of {}", model.output, count);
  for (int i = 0; i < count; ++i) {
    const nn::LayerSpec& layer = model.layers[static_cast<std::size_t>(i)];
    ensure(std::ranges::all_of(layer.inputs, [i](int input) { return input < i; }),
           "the layer {} comes before its input", i);
    ensure(ops::element_count(layer.output_shape) > 0, "the layer {} gives {}", i,
           ops::to_string(layer.output_shape));
  }
  ensure(model.parameter_count() >= 0, "{} parameters", model.parameter_count());
  ensure(model.classes() > 0, "{} classes", model.classes());
  const auto nodes = nn::fuse_layers(model);
  ensure(!nodes.empty() && nodes.size() <= model.layers.size(), "{} nodes of {} layers",
         nodes.size(), count);
}

}  // namespace

bool network_entry(const std::string& input) {
  nn::ModelSpec model;
  try {
    model = nn::parse_model(input, kName);
  } catch (const ConfigError& error) {
    check_refusal(error.what());
    return false;
  }
  check_network(model);
  return true;
}

}  // namespace ddpbench::fuzz
