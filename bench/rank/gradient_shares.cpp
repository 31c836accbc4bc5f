// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/gradient_shares.h"

#include <algorithm>
#include <vector>

namespace ddpbench::bench {
namespace {

using nn::LayerSpec;
using nn::LayerType;
using nn::ModelSpec;

// What batch norms behind a layer take out of its output: that a number is added to all values of a
// channel, that a channel is multiplied by a positive number, that all channels are by the same.
struct TakenOut {
  bool shift = false, channel_scale = false, scale = false;
  bool reads_maxima = false;  // max-pools alone read the output

  void keep_common(const TakenOut& other) {
    shift = shift && other.shift;
    channel_scale = channel_scale && other.channel_scale;
    scale = scale && other.scale;
    reads_maxima = reads_maxima && other.reads_maxima;
  }
};

bool is_padded(const LayerSpec& layer) { return layer.window.pad_h > 0 || layer.window.pad_w > 0; }

// A shift becomes one of each output where no padding lies beside it. The output is not scaled as a
// whole where a bias is added to it, unless that is taken out.
TakenOut before_convolution(const ModelSpec& model, const LayerSpec& conv, const TakenOut& behind) {
  const bool scales = !conv.bias || behind.shift;
  const bool one_input = model.input_of(conv)[0] == conv.groups;
  return {behind.shift && !is_padded(conv), behind.channel_scale && one_input && scales,
          behind.scale && scales};
}

// What is taken out of the input of `reader`, given what is of its output.
TakenOut before(const ModelSpec& model, const LayerSpec& reader, const TakenOut& behind) {
  switch (reader.type) {
    case LayerType::batch_norm2d:
      return {true, true, true};
    case LayerType::conv2d:
      return before_convolution(model, reader, behind);
    case LayerType::max_pool2d:
      return {behind.shift, behind.channel_scale, behind.scale, true};
    case LayerType::adaptive_avg_pool2d:
      return {behind.shift, behind.channel_scale, behind.scale};
    case LayerType::avg_pool2d:
      return {behind.shift && !(is_padded(reader) && reader.count_include_pad),
              behind.channel_scale, behind.scale};
    case LayerType::relu:  // it cuts none of the largest values of windows, or few
      return {behind.shift && behind.reads_maxima, behind.channel_scale, behind.scale};
    case LayerType::dropout:
      return {false, behind.channel_scale, behind.scale};
    case LayerType::concat:  // other channels are not scaled with these
      return {behind.shift, behind.channel_scale, behind.channel_scale};
    case LayerType::add:  // nor is the other term
      return {behind.shift, false, false};
    case LayerType::linear:
      break;
  }
  return {};
}

bool is_output(const ModelSpec& model, int layer) {
  for (std::size_t k = 0; k < model.output_count(); ++k) {
    if (model.output_layer(k) == layer) return true;
  }
  return false;
}

// Of each layer, what all its readers take out.
std::vector<TakenOut> find_taken_out(const ModelSpec& model) {
  const auto count = static_cast<int>(model.layers.size());
  std::vector<TakenOut> found(model.layers.size());
  for (int i = count - 1; i >= 0; --i) {
    if (is_output(model, i)) continue;
    TakenOut all{true, true, true, true};
    bool is_read = false;
    for (int r = i + 1; r < count; ++r) {
      const LayerSpec& reader = model.layers[static_cast<std::size_t>(r)];
      if (std::ranges::count(reader.inputs, i) == 0) continue;
      is_read = true;
      all.keep_common(before(model, reader, found[static_cast<std::size_t>(r)]));
    }
    if (is_read) found[static_cast<std::size_t>(i)] = all;
  }
  return found;
}

void add_shares(const ModelSpec& model, const LayerSpec& layer, const TakenOut& taken,
                std::map<std::string, double>& shares) {
  const auto shapes = nn::parameter_shapes(layer, model.input_of(layer));
  if (shapes.empty()) return;
  const bool has_bias = shapes.size() > 1;
  if (has_bias && taken.shift) shares[layer.name + ".bias"] = 0;
  if (!taken.scale && !taken.channel_scale) return;
  // The numbers that scale a channel, or all.
  const bool bias_scales = has_bias && !taken.shift;
  std::int64_t numbers = ops::element_count(shapes[0]) + (bias_scales ? shapes[0][0] : 0);
  if (taken.channel_scale) numbers /= shapes[0][0];
  const auto m = static_cast<double>(numbers);
  shares[layer.name + ".weight"] = (m - 1) / m;
  if (bias_scales) shares[layer.name + ".bias"] = (m - 1) / m;
}

}  // namespace

std::map<std::string, double> gradient_shares(const ModelSpec& model) {
  std::map<std::string, double> shares;
  const std::vector<TakenOut> taken = find_taken_out(model);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    add_shares(model, model.layers[i], taken[i], shares);
  }
  return shares;
}

}  // namespace ddpbench::bench
