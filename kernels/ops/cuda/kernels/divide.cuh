// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Division by a number that a whole launch shares: a multiplication and a shift, where a GPU needs
// about twenty instructions to divide. After Granlund and Montgomery, "Division by Invariant
// Integers using Multiplication" (PLDI 1994), section 4, for dividends below 2^31.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ddpbench::ops::cuda {

class Divisor {
 public:
  Divisor() = default;
  // REQUIRES: 0 < divisor < 2^31.
  explicit Divisor(std::uint32_t divisor) : divisor_(divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t rest = (std::uint64_t{1} << shift_) - divisor;
    factor_ = static_cast<std::uint32_t>((rest << 32) / divisor + 1);
  }

  __host__ __device__ std::uint32_t divisor() const { return divisor_; }

  // floor(value / divisor). REQUIRES: value < 2^31.
  __host__ __device__ std::uint32_t quotient(std::uint32_t value) const {
#ifdef __CUDA_ARCH__
    const std::uint32_t high = __umulhi(value, factor_);
#else
    const auto high = static_cast<std::uint32_t>((std::uint64_t{value} * factor_) >> 32);
#endif
    return (high + value) >> shift_;
  }

  // Leaves the quotient in `value` and returns the remainder.
  __host__ __device__ std::uint32_t split(std::uint32_t& value) const {
    const std::uint32_t whole = value;
    value = quotient(whole);
    return whole - value * divisor_;
  }

 private:
  std::uint32_t divisor_ = 1, factor_ = 1, shift_ = 0;
};

// a / b, rounded up. REQUIRES: a + b does not overflow.
__host__ __device__ constexpr std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

}  // namespace ddpbench::ops::cuda
