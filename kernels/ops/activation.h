// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions of single elements, alike on every backend. Without calls and, once `kind` is known,
// without branches, so that compilers compute several at once.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/math.h"

namespace ddpbench::ops {

// Of x: max(x, 0), that but at most 6, tanh(x), or 1 / (1 + e^-x). NaN stays NaN.
enum class Activation : std::uint8_t { relu, relu6, tanh, sigmoid };
inline constexpr std::string_view kActivationNames[] = {"relu", "relu6", "tanh", "sigmoid"};

// e^x for x <= 0, to two units in the last place; e^-87 below -87. The reduction to [-ln 2 / 2,
// ln 2 / 2] is Cody and Waite's; it and the polynomial have the constants of Moshier's Cephes
// library (expf).
DDPBENCH_HOST_DEVICE inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  // Adding it rounds to a whole number, which the sum then has in its lowest bits.
  constexpr float kRound = 0x1.8p23F;
  constexpr int kExponentBias = 127, kMantissaBits = 23;
  const float bounded = x < -87.0F ? -87.0F : x;
  const float sum = bounded * kLog2E + kRound;
  const float whole = sum - kRound;
  const float rest = bounded - whole * kLn2High - whole * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * rest + 1.3981999507e-3F;
  p = p * rest + 8.3334519073e-3F;
  p = p * rest + 4.1665795894e-2F;
  p = p * rest + 1.6666665459e-1F;
  p = p * rest + 5.0000001201e-1F;
  p = p * rest * rest + rest + 1.0F;
  std::uint32_t bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  bits = (bits + kExponentBias) << kMantissaBits;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return p * power;
}

DDPBENCH_HOST_DEVICE inline float relu(float x) { return x < 0 ? 0 : x; }
DDPBENCH_HOST_DEVICE inline float relu_gradient(float y, float dy) { return y <= 0 ? 0 : dy; }

DDPBENCH_HOST_DEVICE inline float activate(Activation kind, float x) {
  if (kind == Activation::relu) return relu(x);
  if (kind == Activation::relu6) return x < 0 ? 0 : x > 6 ? 6 : x;
  const float size = x < 0 ? -x : x;
  const float e = exponential(kind == Activation::tanh ? -2 * size : -size);
  const float share = 1 / (1 + e);
  if (kind == Activation::sigmoid) return x < 0 ? e * share : share;
  // Near 0, where 1 - e cancels, the polynomial of Cephes' tanhf.
  const float square = x * x, far = x < 0 ? (e - 1) * share : (1 - e) * share;
  float p = -5.70498872745e-3F;
  p = p * square + 2.06390887954e-2F;
  p = p * square - 5.37397155531e-2F;
  p = p * square + 1.33314422036e-1F;
  p = p * square - 3.33332819422e-1F;
  return size < 0.625F ? p * square * x + x : far;
}

// The gradient at output y. NaN lets that of relu and relu6 through (PyTorch's rule).
DDPBENCH_HOST_DEVICE inline float activation_gradient(Activation kind, float y, float dy) {
  if (kind == Activation::relu) return relu_gradient(y, dy);
  if (kind == Activation::relu6) return y <= 0 || y >= 6 ? 0 : dy;
  return dy * (kind == Activation::tanh ? 1 - y * y : y * (1 - y));
}

// Calls body(kind) with a constant.
template <typename Body>
auto with_activation(Activation kind, const Body& body) {
  using enum Activation;
  if (kind == relu) return body(std::integral_constant<Activation, relu>());
  if (kind == relu6) return body(std::integral_constant<Activation, relu6>());
  if (kind == tanh) return body(std::integral_constant<Activation, tanh>());
  return body(std::integral_constant<Activation, sigmoid>());
}

}  // namespace ddpbench::ops
