// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Element k of a tensor is made of word k mod 4 of philox(counter = (k / 4, hash of the name), key
// = seed); two neighbours of a normal distribution share the words 0 and 1, or 2 and 3.
//
// This source is compiled without contraction of products and sums, which rounds once instead of
// twice where a processor can.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/random.h"
#include "kernels/nn/weights.h"

namespace ddpbench::nn {
namespace {

// Uniform in (-bound, bound). An odd number below 2^23 in size has at most 24 significant bits. So
// only the last product is rounded, the same on every machine.
float uniform(std::uint32_t bits, float bound) {
  const std::int32_t odd = static_cast<std::int32_t>(bits >> 9) * 2 + 1 - (1 << 23);
  return static_cast<float>(odd) * 0x1p-23f * bound;
}

// Uniform in (0, 1), exactly.
double fraction(std::uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; }

template <std::size_t n>
double polynomial(double x, const std::array<double, n>& coefficients) {
  double sum = coefficients[0];
  for (std::size_t i = 1; i < n; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// ln x for x in (0, 1): x = 2^e m with m in [1/2, 1) or, where that is below 0.7, doubled; ln m =
// 2 artanh((m - 1) / (m + 1)) by its series.
double logarithm(double x) {
  constexpr std::array<double, 12> kSeries = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17,
                                              1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                                              1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<std::int32_t>(bits >> 52) - 1022;
  const double half = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000);
  const bool doubled = half < 0.7;
  const double m = doubled ? half + half : half;
  const double e = static_cast<double>(doubled ? exponent - 1 : exponent);
  const double s = (m - 1) / (m + 1);
  return e * kLn2 + (s + s) * polynomial(s * s, kSeries);
}

// Two independent values of the standard normal distribution (Box and Muller, "A note on the
// generation of random normal deviates", 1958).
struct Pair {
  double first, second;
};
Pair standard_normal(std::uint32_t a, std::uint32_t b) {
  constexpr std::array<double, 8> kSine = {
      -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
      -1.0 / 5040,          1.0 / 120,        -1.0 / 6,        1.0};
  constexpr auto kCosine =
      std::to_array({1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
                     1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0});
  constexpr double kHalfPi = 0x1.921fb54442d18p+0;
  const double length = std::sqrt(-2 * logarithm(fraction(a)));
  // The angle as quarters of a turn, the nearest of them and at most half of one more.
  const double quarters = 4 * fraction(b);
  const double nearest = std::floor(quarters + 0.5);
  const double rest = (quarters - nearest) * kHalfPi;
  const double square = rest * rest;
  const double sine = rest * polynomial(square, kSine);
  const double cosine = polynomial(square, kCosine);
  const auto turned = static_cast<int>(nearest) % 4;
  const double x = turned % 2 == 0 ? cosine : sine, y = turned % 2 == 0 ? sine : cosine;
  return {length * (turned == 1 || turned == 2 ? -x : x), length * (turned >= 2 ? -y : y)};
}

// The deviation of the normal distribution that `init` asks for.
double deviation(const Init& init, const ops::Shape& weight) {
  if (init.kind == InitKind::normal) return init.deviation;
  // The weight is [out, in, kh, kw], as torch.nn.init._calculate_fan_in_and_fan_out takes it.
  const std::int64_t fan_out = ops::element_count(weight) / weight[1];
  return std::sqrt(2 / static_cast<double>(fan_out));
}

}  // namespace

std::vector<float> start_values(const ParameterInfo& parameter, const Init& init,
                                std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(ops::element_count(parameter.shape)));
  if (parameter.start) {
    std::ranges::fill(values, *parameter.start);
    return values;
  }
  const bool normal = init.kind != InitKind::uniform_fan_in;
  if (normal && parameter.shape.size() < 2) return values;  // a bias
  const std::uint64_t name = hash_bytes(parameter.name.data(), parameter.name.size());
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const PhiloxKey key{low(seed), high(seed)};
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(parameter.fan_in)));
  const double scale = normal ? deviation(init, parameter.shape) : 0;
  for (std::size_t k = 0; k < values.size(); k += 4) {
    const PhiloxCounter random = philox4x32({low(k / 4), high(k / 4), low(name), high(name)}, key);
    std::array<float, 4> drawn;
    for (std::size_t i = 0; i < 4 && !normal; ++i) drawn[i] = uniform(random[i], bound);
    for (std::size_t i = 0; i < 4 && normal; i += 2) {
      const Pair pair = standard_normal(random[i], random[i + 1]);
      drawn[i] = static_cast<float>(scale * pair.first);
      drawn[i + 1] = static_cast<float>(scale * pair.second);
    }
    const std::size_t count = std::min<std::size_t>(4, values.size() - k);
    std::copy_n(drawn.begin(), count, values.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return values;
}

}  // namespace ddpbench::nn
