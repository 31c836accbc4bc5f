// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels over flat buffers of fp32: the optimizer's step and the mean.
#include "kernels/ops/cuda/kernels/flat_kernels.h"

#include <algorithm>

#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"
#include "kernels/ops/optimizer_rules.h"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kVector = kVectorOf<float>;

template <typename Rule>
struct Update {
  float* weights;
  const float* gradients;
  float* slots[kMostSlots];
  UpdateFactors factors;
  const OptimizerStep* step;  // null: updates are not counted
  const LossScale* scale;     // as OptimizerArgs has it

  template <std::uint32_t kCount>
  __host__ __device__ void take(std::uint32_t first) const {
    if (scale != nullptr && scale->overflow != 0) return;
    float w[kCount], g[kCount], kept[kMostSlots][kCount] = {};
    load(weights + first, w);
    load(gradients + first, g);
    DDPBENCH_UNROLL
    for (int s = 0; s < Rule::kSlots; ++s) load(slots[s] + first, kept[s]);
    UpdateFactors by = factors;
    if (step != nullptr) by.now = *step;
    if (scale != nullptr) by.grad_scale /= scale->scale;
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      Rule::update(by, w[k], kept[0][k], kept[1][k], g[k]);
    }
    DDPBENCH_UNROLL
    for (int s = 0; s < Rule::kSlots; ++s) store(slots[s] + first, kept[s]);
    store(weights + first, w);
  }
};

struct Advance {
  OptimizerOptions options;
  OptimizerStep* step;
  const LossScale* scale;

  __host__ __device__ void operator()(std::uint32_t) const {
    if (scale == nullptr || scale->overflow == 0) advance(options, *step);
  }
};

// Threads that find something all write the same.
struct FindOverflow {
  const float* gradients;
  LossScale* scale;

  template <std::uint32_t kCount>
  __host__ __device__ void take(std::uint32_t first) const {
    float values[kCount];
    load(gradients + first, values);
    bool finite = true;
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) finite = finite && is_finite_number(values[k]);
    if (!finite) scale->overflow = 1;
  }
};

struct EndScaledStep {
  LossScale* scale;
  __host__ __device__ void operator()(std::uint32_t) const { ops::end_scaled_step(*scale); }
};

// Every element's sum has the order of the inputs.
struct MeanOf {
  const float* inputs[kMaxMeanInputs];
  std::uint32_t input_count;
  float* out;

  template <std::uint32_t kCount>
  __host__ __device__ void take(std::uint32_t first) const {
    float sums[kCount];
    load(inputs[0] + first, sums);
    for (std::uint32_t k = 1; k < input_count; ++k) {
      float values[kCount];
      load(inputs[k] + first, values);
      DDPBENCH_UNROLL
      for (std::uint32_t j = 0; j < kCount; ++j) sums[j] += values[j];
    }
    DDPBENCH_UNROLL
    for (std::uint32_t j = 0; j < kCount; ++j) sums[j] /= static_cast<float>(input_count);
    store(out + first, sums);
  }
};

// No fused multiply-add: its rounding would give other batches than the loader does.
__host__ __device__ inline float scaled(float byte, float scale, float offset) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(byte, scale), offset);
#else
  return byte * scale + offset;
#endif
}

template <std::uint32_t kCount>
struct Gather {
  GatherArgs args;
  std::uint32_t sample_elements, labels_per_sample;
  Divisor pieces, channel_pieces;  // of kCount elements, of a sample and of a channel
  float scale[kMaxGatherChannels], offset[kMaxGatherChannels];

  __host__ __device__ void operator()(std::uint32_t i) const {
    std::uint32_t slot = i;
    const std::uint32_t piece = pieces.split(slot);
    const std::uint64_t first = args.position != nullptr ? *args.position : 0;
    const auto sample = static_cast<std::uint64_t>(args.indices[first + slot]);
    const std::uint32_t channel = channel_pieces.quotient(piece);
    const std::uint8_t* const bytes = args.images + sample * sample_elements + piece * kCount;
    if constexpr (kCount == 1) {
      args.out[i] = scaled(static_cast<float>(bytes[0]), scale[channel], offset[channel]);
    } else {
      float values[kCount];
      const std::uint32_t word = read_words<1>(bytes).word[0];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kCount; ++k) {
        const auto byte = static_cast<float>(word >> (8 * k) & 0xffU);
        values[k] = scaled(byte, scale[channel], offset[channel]);
      }
      store(args.out + i * kCount, values);
    }
    for (std::uint32_t k = piece; k < labels_per_sample; k += pieces.divisor()) {
      args.labels_out[slot * labels_per_sample + k] = args.labels[sample * labels_per_sample + k];
    }
  }
};

template <std::uint32_t kCount>
cudaError_t gather_pieces(const GatherArgs& args, cudaStream_t stream) {
  const auto elements = static_cast<std::uint32_t>(args.sample_elements);
  const auto channels = static_cast<std::uint32_t>(args.channels);
  Gather<kCount> body{.args = args,
                      .sample_elements = elements,
                      .labels_per_sample = static_cast<std::uint32_t>(args.labels_per_sample),
                      .pieces = Divisor(elements / kCount),
                      .channel_pieces = Divisor(elements / channels / kCount)};
  for (std::size_t c = 0; c < args.mean.size(); ++c) {
    const ByteScale scale = byte_scale(args.mean[c], args.std[c]);
    body.scale[c] = scale.factor;
    body.offset[c] = scale.offset;
  }
  return for_each(static_cast<std::uint32_t>(args.batch) * (elements / kCount), stream, body);
}

}  // namespace

cudaError_t optimizer_step(const OptimizerArgs& args, cudaStream_t stream) {
  const OptimizerOptions& o = args.options;
  const OptimizerState state = state_of(args);
  if (args.count == 0) return cudaSuccess;
  if (state.step != nullptr && args.state_first == 0) {
    const cudaError_t error = for_each(1, stream, Advance{o, state.step, args.loss_scale});
    if (error != cudaSuccess) return error;
  }
  return with_rule(o, [&](auto rule) {
    const Update<decltype(rule)> body{.weights = args.weights,
                                      .gradients = args.gradients,
                                      .slots = {state.slots[0], state.slots[1]},
                                      .factors = UpdateFactors(args),
                                      .step = state.step,
                                      .scale = args.loss_scale};
    return for_elements<kVector>(
        static_cast<std::uint32_t>(args.count),
        are_vector_aligned(args.weights, args.gradients, body.slots[0], body.slots[1]), stream,
        body);
  });
}

cudaError_t find_overflow(const float* gradients, std::uint32_t count, LossScale* scale,
                          cudaStream_t stream) {
  return for_elements<kVector>(count, are_vector_aligned(gradients), stream,
                               FindOverflow{gradients, scale});
}

cudaError_t end_scaled_step(LossScale* scale, cudaStream_t stream) {
  return for_each(1, stream, EndScaledStep{scale});
}

cudaError_t mean_of(std::span<const float* const> inputs, float* out, std::uint32_t count,
                    cudaStream_t stream) {
  if (inputs.empty() || inputs.size() > kMaxMeanInputs) return cudaErrorInvalidValue;
  MeanOf body{.input_count = static_cast<std::uint32_t>(inputs.size()), .out = out};
  std::ranges::copy(inputs, body.inputs);
  const bool vectors = are_vector_aligned(out) && std::ranges::all_of(inputs, [](const float* in) {
                         return are_vector_aligned(in);
                       });
  return for_elements<kVector>(count, vectors, stream, body);
}

cudaError_t gather_batch(const GatherArgs& args, cudaStream_t stream) {
  if (args.mean.size() > kMaxGatherChannels) return cudaErrorInvalidValue;
  constexpr std::uint32_t kPiece = 4;
  const bool whole = args.sample_elements / args.channels % kPiece == 0;
  // Samples lie at multiples of their size.
  if (whole && are_vector_aligned(args.images, args.out)) {
    return gather_pieces<kPiece>(args, stream);
  }
  return gather_pieces<1>(args, stream);
}

}  // namespace ddpbench::ops::cuda
