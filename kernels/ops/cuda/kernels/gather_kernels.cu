// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread takes four elements, 4 bytes in and 16 out, where samples and channels are multiples of
// four; else one.
#include "kernels/ops/cuda/kernels/gather_kernels.h"

#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/vector.cuh"

namespace ddpbench::ops::cuda {
namespace {

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
  const std::uint8_t* images;
  const std::uint16_t* labels;
  const std::int32_t* indices;
  const std::uint64_t* position;
  std::uint32_t sample_elements, labels_per_sample;
  Divisor pieces, channel_pieces;  // of kCount elements, of a sample and of a channel
  float scale[kMaxGatherChannels], offset[kMaxGatherChannels];
  float* out;
  std::int32_t* labels_out;

  __host__ __device__ void operator()(std::uint32_t i) const {
    std::uint32_t slot = i;
    const std::uint32_t piece = pieces.split(slot);
    const std::uint64_t first = position != nullptr ? *position : 0;
    const auto sample = static_cast<std::uint64_t>(indices[first + slot]);
    const std::uint32_t channel = channel_pieces.quotient(piece);
    const std::uint8_t* const bytes = images + sample * sample_elements + piece * kCount;
    if constexpr (kCount == 1) {
      out[i] = scaled(static_cast<float>(bytes[0]), scale[channel], offset[channel]);
    } else {
      float values[kCount];
      const std::uint32_t word = read_words<1>(bytes).word[0];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kCount; ++k) {
        const auto byte = static_cast<float>(word >> (8 * k) & 0xffU);
        values[k] = scaled(byte, scale[channel], offset[channel]);
      }
      store(out + i * kCount, values);
    }
    for (std::uint32_t k = piece; k < labels_per_sample; k += pieces.divisor()) {
      labels_out[slot * labels_per_sample + k] = labels[sample * labels_per_sample + k];
    }
  }
};

template <std::uint32_t kCount>
cudaError_t gather_pieces(const GatherArgs& args, cudaStream_t stream) {
  const auto elements = static_cast<std::uint32_t>(args.sample_elements);
  const auto channels = static_cast<std::uint32_t>(args.channels);
  Gather<kCount> body{};
  body.images = args.images;
  body.labels = args.labels;
  body.indices = args.indices;
  body.position = args.position;
  body.sample_elements = elements;
  body.labels_per_sample = static_cast<std::uint32_t>(args.labels_per_sample);
  body.pieces = Divisor(elements / kCount);
  body.channel_pieces = Divisor(elements / channels / kCount);
  for (std::size_t c = 0; c < args.mean.size(); ++c) {
    const ByteScale scale = byte_scale(args.mean[c], args.std[c]);
    body.scale[c] = scale.factor;
    body.offset[c] = scale.offset;
  }
  body.out = args.out;
  body.labels_out = args.labels_out;
  return for_each(static_cast<std::uint32_t>(args.batch) * (elements / kCount), stream, body);
}

}  // namespace

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
