// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// IndependentChannels: how many channels of what a layer reads are linearly independent, constants
// aside, provided that no ReLU cuts anything. Behind a convolution of one pixel over a grey image
// all channels are multiples of the image, also behind further ones, sums and concatenations of
// them.
#pragma once

#include <cstdint>
#include <map>

#include "kernels/nn/model/model.h"

namespace ddpbench::bench {

class IndependentChannels {
 public:
  explicit IndependentChannels(const nn::ModelSpec& model);

  // Returns the number for all that a layer of the model reads; there may be fewer.
  std::int64_t of_input(const nn::LayerSpec& layer) const;

 private:
  // How many functions of each root an output has. A root is the network's input, or a layer that
  // reads more than the pixel itself.
  using Roots = std::map<int, std::int64_t>;

  Roots roots_of_input(const nn::LayerSpec& layer) const;
  Roots roots_of_output(int index, const nn::LayerSpec& layer);

  std::map<int, std::int64_t> all_of_root_;
  std::map<int, Roots> of_;  // by layer, kNetworkInput among them
};

}  // namespace ddpbench::bench
