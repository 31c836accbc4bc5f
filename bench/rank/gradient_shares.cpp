// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/gradient_shares.h"

#include <algorithm>
#include <vector>

#include "bench/rank/independent_channels.h"

namespace ddpbench::bench {
namespace {

using nn::LayerSpec;
using nn::LayerType;
using nn::ModelSpec;

struct NormalizedNetwork {
  const ModelSpec& model;
  std::int64_t batch;
  IndependentChannels independent;

  const ops::Shape& input_of(const LayerSpec& layer) const { return model.input_of(layer); }
  bool reads_one_function(const LayerSpec& layer) const { return independent.of_input(layer) == 1; }
};

// What batch norms behind a layer take out of its output: that a number is added to all values of a
// channel, that a channel is multiplied by a positive number, that all channels are by the same.
// `left`: the share of the directions of its gradient that their statistics leave.
struct TakenOut {
  bool shift = false, channel_scale = false, scale = false;
  bool reads_maxima = false;  // max-pools alone read the output
  double left = 1;

  void keep_common(const TakenOut& other) {
    left = std::max(left, other.left);
    shift = shift && other.shift;
    channel_scale = channel_scale && other.channel_scale;
    scale = scale && other.scale;
    reads_maxima = reads_maxima && other.reads_maxima;
  }
};

bool is_padded(const LayerSpec& layer) { return layer.window.pad_h > 0 || layer.window.pad_w > 0; }

// Where a channel has few values, its statistics are most of them.
double left_before_batch_norm(const NormalizedNetwork& network, const LayerSpec& norm) {
  const ops::Shape& map = network.input_of(norm);
  const auto values = static_cast<double>(network.batch * map[1] * map[2]);
  return values > 2 ? (values - 2) / values : 0;
}

// A shift becomes one of each output where no padding lies beside it. The output is not scaled as a
// whole where a bias is added to it, unless that is taken out. What one channel is multiplied by
// scales an output channel as a whole where that reads this channel alone, or where all are
// multiples of one.
TakenOut before_convolution(const NormalizedNetwork& network, const LayerSpec& conv,
                            const TakenOut& behind) {
  const bool scales = !conv.bias || behind.shift;
  const bool one_pixel = conv.window.kernel_h * conv.window.kernel_w == 1;
  const bool one_input =
      network.input_of(conv)[0] == conv.groups || (one_pixel && network.reads_one_function(conv));
  return {behind.shift && !is_padded(conv), behind.channel_scale && one_input && scales,
          behind.scale && scales};
}

// What is taken out of the input of `reader`, given what is taken out of its output. Without
// `left`.
TakenOut moves_before(const NormalizedNetwork& network, const LayerSpec& reader,
                      const TakenOut& behind) {
  switch (reader.type) {
    case LayerType::batch_norm2d:
      return {true, true, true};
    case LayerType::conv2d:
      return before_convolution(network, reader, behind);
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
    case LayerType::add: {  // nor is the other term, unless both are multiples of one channel
      const bool scales = behind.channel_scale && network.reads_one_function(reader);
      return {behind.shift, scales, scales};
    }
    case LayerType::linear:
      break;
  }
  return {};
}

TakenOut before(const NormalizedNetwork& network, const LayerSpec& reader, const TakenOut& behind) {
  TakenOut taken = moves_before(network, reader, behind);
  taken.left = behind.left;
  if (reader.type == LayerType::batch_norm2d) {
    taken.left *= left_before_batch_norm(network, reader);
  }
  return taken;
}

bool is_output(const ModelSpec& model, int layer) {
  for (std::size_t k = 0; k < model.output_count(); ++k) {
    if (model.output_layer(k) == layer) return true;
  }
  return false;
}

// Of each layer, what all its readers take out.
std::vector<TakenOut> find_taken_out(const NormalizedNetwork& network) {
  const ModelSpec& model = network.model;
  const auto count = static_cast<int>(model.layers.size());
  std::vector<TakenOut> found(model.layers.size());
  for (int i = count - 1; i >= 0; --i) {
    if (is_output(model, i)) continue;
    TakenOut all{true, true, true, true, 0};
    bool is_read = false;
    for (int r = i + 1; r < count; ++r) {
      const LayerSpec& reader = model.layers[static_cast<std::size_t>(r)];
      if (std::ranges::count(reader.inputs, i) == 0) continue;
      is_read = true;
      all.keep_common(before(network, reader, found[static_cast<std::size_t>(r)]));
    }
    if (is_read) found[static_cast<std::size_t>(i)] = all;
  }
  return found;
}

// The share that is left where scaling m numbers changes nothing.
double without_scale(std::int64_t m) { return static_cast<double>(m - 1) / static_cast<double>(m); }

void add_shares(const NormalizedNetwork& network, const LayerSpec& layer, const TakenOut& taken,
                std::map<std::string, double>& shares) {
  const auto shapes = nn::parameter_shapes(layer, network.input_of(layer));
  if (shapes.empty()) return;
  const bool has_bias = shapes.size() > 1;
  const bool bias_scales = has_bias && !taken.shift;
  double weight = taken.left, bias = taken.shift ? 0 : taken.left;
  if (taken.scale || taken.channel_scale) {
    // The numbers that scale a channel, or all.
    std::int64_t numbers = ops::element_count(shapes[0]);
    if (layer.type == LayerType::conv2d) {
      const std::int64_t read = shapes[0][1];
      numbers = numbers / read * std::min(read, network.independent.of_input(layer));
    }
    if (bias_scales) numbers += shapes[0][0];
    if (taken.channel_scale) numbers /= shapes[0][0];
    weight *= without_scale(numbers);
    if (bias_scales) bias *= without_scale(numbers);
  }
  if (weight < 1) shares[layer.name + ".weight"] = weight;
  if (has_bias && bias < 1) shares[layer.name + ".bias"] = bias;
}

}  // namespace

std::map<std::string, double> gradient_shares(const ModelSpec& model, std::int64_t batch) {
  std::map<std::string, double> shares;
  const NormalizedNetwork network{model, batch, IndependentChannels(model)};
  const std::vector<TakenOut> taken = find_taken_out(network);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    add_shares(network, model.layers[i], taken[i], shares);
  }
  return shares;
}

}  // namespace ddpbench::bench
