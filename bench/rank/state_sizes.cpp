// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/state_sizes.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

// What one forward added to element `c` of a running statistic: momentum * the batch's.
double added(const nn::NamedTensor& before, const nn::NamedTensor& after, double momentum,
             std::size_t c) {
  return after.values[c] - (1 - momentum) * before.values[c];
}

}  // namespace

std::vector<double> state_sizes(const nn::ModelSpec& model,
                                const std::vector<nn::NamedTensor>& before,
                                const std::vector<nn::NamedTensor>& after) {
  std::vector<double> sizes;
  for (const nn::LayerSpec& layer : model.layers) {
    if (layer.type != nn::LayerType::batch_norm2d) continue;
    const std::size_t at = sizes.size();
    const double momentum = layer.momentum;
    double mean_squared = 0, variance_squared = 0;
    for (std::size_t c = 0; momentum > 0 && c < after.at(at).values.size(); ++c) {
      const double mean = std::abs(added(before.at(at), after.at(at), momentum, c));
      const double variance =
          std::max(added(before.at(at + 1), after.at(at + 1), momentum, c), 0.0) / momentum;
      const double deviation = std::sqrt(variance);
      const double size = mean + momentum * deviation;
      mean_squared += size * size;
      variance_squared += size * size * variance;
    }
    sizes.push_back(std::sqrt(mean_squared));
    sizes.push_back(std::sqrt(variance_squared));
    sizes.push_back(0);
  }
  ensure(sizes.size() == after.size(), "{} tensors of state where the layers have {}", after.size(),
         sizes.size());
  return sizes;
}

}  // namespace ddpbench::bench
