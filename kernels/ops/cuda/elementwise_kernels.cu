// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Element by element: relu, add, bias, conversion of types, and the test pattern.
#include "kernels/ops/cuda/elementwise_kernels.h"

#include "kernels/ops/cuda/launch.cuh"
#include "kernels/ops/cuda/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

template <typename T>
struct ReluForward {
  const T* x;
  T* y;
  __host__ __device__ void operator()(std::uint32_t i) const {
    y[i] = from_float<T>(relu(to_float(x[i])));
  }
};

template <typename T>
struct ReluBackward {
  const T *y, *dy;
  T* dx;
  __host__ __device__ void operator()(std::uint32_t i) const {
    dx[i] = from_float<T>(relu_gradient(to_float(y[i]), to_float(dy[i])));
  }
};

template <typename T>
struct Add {
  const T *a, *b;
  T* sum;
  __host__ __device__ void operator()(std::uint32_t i) const {
    sum[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
  }
};

template <typename T>
struct AddBias {
  BiasRelu args;
  __host__ __device__ void operator()(std::uint32_t i) const {
    T* const y = static_cast<T*>(args.y);
    const float bias = args.bias != nullptr ? args.bias[i % args.columns] : 0.0F;
    const float value = to_float(y[i]) + bias;
    y[i] = from_float<T>(args.relu ? relu(value) : value);
  }
};

template <typename From, typename To>
struct ConvertType {
  const From* from;
  To* to;
  bool accumulate;
  __host__ __device__ void operator()(std::uint32_t i) const {
    const float value = to_float(from[i]);
    to[i] = from_float<To>(accumulate ? to_float(to[i]) + value : value);
  }
};

template <typename T>
struct Pattern {
  T* data;
  __host__ __device__ void operator()(std::uint32_t i) const {
    // Knuth's multiplicative hash; its upper 16 bits are exact in a float.
    const std::uint32_t hash = i * 2654435761U;
    data[i] = from_float<T>(static_cast<float>(hash >> 16) / 32768.0F - 1.0F);
  }
};

}  // namespace

cudaError_t relu_forward(DataType type, const void* x, void* y, std::uint32_t count,
                         cudaStream_t stream) {
  return with_element_type(type, [&](auto element) {
    using T = decltype(element);
    return for_each(count, stream, ReluForward<T>{static_cast<const T*>(x), static_cast<T*>(y)});
  });
}

cudaError_t relu_backward(DataType type, const void* y, const void* dy, void* dx,
                          std::uint32_t count, cudaStream_t stream) {
  return with_element_type(type, [&](auto element) {
    using T = decltype(element);
    return for_each(
        count, stream,
        ReluBackward<T>{static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx)});
  });
}

cudaError_t add(DataType type, const void* a, const void* b, void* sum, std::uint32_t count,
                cudaStream_t stream) {
  return with_element_type(type, [&](auto element) {
    using T = decltype(element);
    return for_each(
        count, stream,
        Add<T>{static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(sum)});
  });
}

cudaError_t bias_relu(const BiasRelu& args, std::uint32_t count, cudaStream_t stream) {
  return with_element_type(args.type, [&](auto element) {
    return for_each(count, stream, AddBias<decltype(element)>{args});
  });
}

cudaError_t convert_type(DataType from_type, const void* from, DataType to_type, void* to,
                         bool accumulate, std::uint32_t count, cudaStream_t stream) {
  return with_element_type(from_type, [&](auto from_element) {
    return with_element_type(to_type, [&](auto to_element) {
      using From = decltype(from_element);
      using To = decltype(to_element);
      return for_each(
          count, stream,
          ConvertType<From, To>{static_cast<const From*>(from), static_cast<To*>(to), accumulate});
    });
  });
}

cudaError_t fill_with_pattern(DataType type, void* data, std::uint32_t count, cudaStream_t stream) {
  return with_element_type(type, [&](auto element) {
    using T = decltype(element);
    return for_each(count, stream, Pattern<T>{static_cast<T*>(data)});
  });
}

}  // namespace ddpbench::ops::cuda
