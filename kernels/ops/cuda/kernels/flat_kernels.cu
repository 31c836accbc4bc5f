// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels over flat buffers of fp32: the optimizer's step and the mean.
#include "kernels/ops/cuda/kernels/flat_kernels.h"

#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/vector.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kVector = kVectorOf<float>;

struct SgdStep {
  float lr, momentum, weight_decay, grad_scale;

  __host__ __device__ float gradient(float weight, float raw) const {
    return raw * grad_scale + weight_decay * weight;
  }
  __host__ __device__ void with_momentum(float& weight, float& velocity, float raw) const {
    velocity = momentum * velocity + gradient(weight, raw);
    weight -= lr * velocity;
  }
  __host__ __device__ void plain(float& weight, float raw) const {
    weight -= lr * gradient(weight, raw);
  }
};

// Thread i takes elements [4 i, 4 i + 4); the last thread takes the rest.
struct Sgd4 {
  float* weights;
  const float* gradients;
  float* velocity;  // null without momentum
  std::uint32_t count;
  bool vectors;  // all three are 16-byte aligned
  SgdStep step;

  __host__ __device__ void operator()(std::uint32_t i) const {
    const std::uint32_t first = i * kVector;
    if (vectors && first + kVector <= count) {
      run_vector(first);
      return;
    }
    for (std::uint32_t k = first; k < count && k < first + kVector; ++k) {
      if (velocity != nullptr) {
        step.with_momentum(weights[k], velocity[k], gradients[k]);
      } else {
        step.plain(weights[k], gradients[k]);
      }
    }
  }

  __host__ __device__ void run_vector(std::uint32_t first) const {
    float w[kVector], g[kVector];
    load(weights + first, w);
    load(gradients + first, g);
    if (velocity != nullptr) {
      float v[kVector];
      load(velocity + first, v);
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kVector; ++k) step.with_momentum(w[k], v[k], g[k]);
      store(velocity + first, v);
    } else {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kVector; ++k) step.plain(w[k], g[k]);
    }
    store(weights + first, w);
  }
};

// Takes elements as Sgd4 does. Every element's sum has the order of the inputs.
struct Mean4 {
  const float* inputs[kMaxMeanInputs];
  std::uint32_t input_count, count;
  bool vectors;  // all are 16-byte aligned
  float* out;

  __host__ __device__ void operator()(std::uint32_t i) const {
    const std::uint32_t first = i * kVector;
    if (vectors && first + kVector <= count) {
      run_vector(first);
      return;
    }
    for (std::uint32_t at = first; at < count && at < first + kVector; ++at) {
      float sum = inputs[0][at];
      for (std::uint32_t k = 1; k < input_count; ++k) sum += inputs[k][at];
      out[at] = sum / static_cast<float>(input_count);
    }
  }

  __host__ __device__ void run_vector(std::uint32_t first) const {
    float sums[kVector];
    load(inputs[0] + first, sums);
    for (std::uint32_t k = 1; k < input_count; ++k) {
      float values[kVector];
      load(inputs[k] + first, values);
      DDPBENCH_UNROLL
      for (std::uint32_t j = 0; j < kVector; ++j) sums[j] += values[j];
    }
    DDPBENCH_UNROLL
    for (std::uint32_t j = 0; j < kVector; ++j) sums[j] /= static_cast<float>(input_count);
    store(out + first, sums);
  }
};

}  // namespace

cudaError_t sgd_step(const SgdArgs& args, cudaStream_t stream) {
  Sgd4 body{};
  body.weights = args.weights;
  body.gradients = args.gradients;
  body.velocity = args.options.momentum != 0 ? args.velocity : nullptr;
  body.count = static_cast<std::uint32_t>(args.count);
  body.vectors = are_vector_aligned(args.weights, args.gradients, body.velocity);
  body.step = {static_cast<float>(args.options.lr), static_cast<float>(args.options.momentum),
               static_cast<float>(args.options.weight_decay), args.grad_scale};
  return for_each(ceil_div(body.count, kVector), stream, body);
}

cudaError_t mean_of(std::span<const float* const> inputs, float* out, std::uint32_t count,
                    cudaStream_t stream) {
  if (inputs.empty() || inputs.size() > kMaxMeanInputs) return cudaErrorInvalidValue;
  Mean4 body{};
  body.vectors = are_vector_aligned(out);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    body.inputs[k] = inputs[k];
    body.vectors = body.vectors && are_vector_aligned(inputs[k]);
  }
  body.input_count = static_cast<std::uint32_t>(inputs.size());
  body.count = count;
  body.out = out;
  return for_each(ceil_div(count, kVector), stream, body);
}

}  // namespace ddpbench::ops::cuda
