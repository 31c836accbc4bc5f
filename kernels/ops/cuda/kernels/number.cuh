// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as the own kernels read and write them. Memory holds fp32 or bf16; arithmetic is fp32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#endif

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// The upper half of a float.
struct Bf16 {
  std::uint16_t bits;
};

__host__ __device__ inline float to_float(float value) { return value; }

__host__ __device__ inline float to_float(Bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

template <typename T>
__host__ __device__ T from_float(float value);

template <>
__host__ __device__ inline float from_float<float>(float value) {
  return value;
}

// Rounds to the nearest, ties to even; NaN stays NaN.
template <>
__host__ __device__ inline Bf16 from_float<Bf16>(float value) {
#ifdef __CUDA_ARCH__
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);  // one instruction from 8.0 on
  Bf16 result;
  memcpy(&result, &rounded, sizeof(result));
  return result;
#else
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
#endif
}

__host__ __device__ inline bool is_nan(float value) { return value != value; }
// ReLU as in the reference: NaN stays NaN, and passes the gradient.
__host__ __device__ inline float relu(float x) { return x < 0 ? 0 : x; }
__host__ __device__ inline float relu_gradient(float y, float grad) { return y <= 0 ? 0 : grad; }

// Whether `value` replaces a window's largest so far. NaN does.
__host__ __device__ inline bool exceeds(float value, float largest) {
  return value > largest || is_nan(value);
}

// Calls with_type(T()) for the type of the elements. Other types are an invalid argument.
template <typename WithType>
cudaError_t with_element_type(DataType type, const WithType& with_type) {
  if (type == DataType::fp32) return with_type(float());
  if (type == DataType::bf16) return with_type(Bf16());
  return cudaErrorInvalidValue;
}

}  // namespace ddpbench::ops::cuda
