// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels over flat buffers of fp32: the optimizer's step and the mean.
#include "kernels/ops/cuda/elementwise_kernels.h"
#include "kernels/ops/cuda/launch.cuh"
#include "kernels/ops/cuda/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kVector = 4;  // floats of a 16-byte access

struct alignas(16) Float4 {
  float value[kVector];
};

bool is_vector_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Float4) == 0;
}

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

// Thread i takes elements [4 i, 4 i + 4); the last one what is left.
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
      run_vector(i);
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

  __host__ __device__ void run_vector(std::uint32_t i) const {
    Float4 w = reinterpret_cast<const Float4*>(weights)[i];
    const Float4 g = reinterpret_cast<const Float4*>(gradients)[i];
    if (velocity != nullptr) {
      Float4 v = reinterpret_cast<const Float4*>(velocity)[i];
      for (std::uint32_t k = 0; k < kVector; ++k) {
        step.with_momentum(w.value[k], v.value[k], g.value[k]);
      }
      reinterpret_cast<Float4*>(velocity)[i] = v;
    } else {
      for (std::uint32_t k = 0; k < kVector; ++k) step.plain(w.value[k], g.value[k]);
    }
    reinterpret_cast<Float4*>(weights)[i] = w;
  }
};

struct MeanOf {
  const float* inputs[kMaxMeanInputs];
  std::uint32_t input_count;
  float* out;

  __host__ __device__ void operator()(std::uint32_t i) const {
    float sum = inputs[0][i];
    for (std::uint32_t k = 1; k < input_count; ++k) sum += inputs[k][i];
    out[i] = sum / static_cast<float>(input_count);
  }
};

}  // namespace

cudaError_t sgd_step(const SgdArgs& args, cudaStream_t stream) {
  Sgd4 body{};
  body.weights = args.weights;
  body.gradients = args.gradients;
  body.velocity = args.options.momentum != 0 ? args.velocity : nullptr;
  body.count = static_cast<std::uint32_t>(args.count);
  body.vectors = is_vector_aligned(args.weights) && is_vector_aligned(args.gradients) &&
                 is_vector_aligned(body.velocity);
  body.step = {static_cast<float>(args.options.lr), static_cast<float>(args.options.momentum),
               static_cast<float>(args.options.weight_decay), args.grad_scale};
  return for_each((body.count + kVector - 1) / kVector, stream, body);
}

cudaError_t mean_of(std::span<const float* const> inputs, float* out, std::uint32_t count,
                    cudaStream_t stream) {
  if (inputs.empty() || inputs.size() > kMaxMeanInputs) return cudaErrorInvalidValue;
  MeanOf body{};
  for (std::size_t k = 0; k < inputs.size(); ++k) body.inputs[k] = inputs[k];
  body.input_count = static_cast<std::uint32_t>(inputs.size());
  body.out = out;
  return for_each(count, stream, body);
}

}  // namespace ddpbench::ops::cuda
