// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Element k of a tensor is word k mod 4 of philox(counter = (k / 4, hash of the name), key = seed).
#include "kernels/nn/initializer.h"

#include <cmath>
#include <vector>

#include "base/hash.h"
#include "base/philox.h"

namespace ddpbench::nn {
namespace {

// Uniform in (-bound, bound). The odd numbers below 2^23 in size have 24 significant bits at most,
// so that the only rounding is the one of the last product: the same on every machine.
float uniform(std::uint32_t bits, float bound) {
  const std::int32_t odd = static_cast<std::int32_t>(bits >> 9) * 2 + 1 - (1 << 23);
  return static_cast<float>(odd) * 0x1p-23f * bound;
}

std::vector<float> draw(const ParameterInfo& parameter, std::uint64_t seed) {
  const std::uint64_t name = hash_bytes(parameter.name.data(), parameter.name.size());
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const PhiloxKey key{low(seed), high(seed)};
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(parameter.fan_in)));

  std::vector<float> values(static_cast<std::size_t>(ops::element_count(parameter.shape)));
  PhiloxCounter random{};
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (k % 4 == 0) random = philox4x32({low(k / 4), high(k / 4), low(name), high(name)}, key);
    values[k] = uniform(random[k % 4], bound);
  }
  return values;
}

}  // namespace

void initialize_parameters(Graph& graph, std::uint64_t seed) {
  const std::vector<ParameterInfo>& parameters = graph.plan().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    graph.import_parameter(i, draw(parameters[i], seed), graph.weights().view());
  }
}

}  // namespace ddpbench::nn
