// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One thread an element: neighbours read neighbouring bytes of one sample.
#include "kernels/ops/cuda/gather_kernels.h"
#include "kernels/ops/cuda/launch.cuh"

namespace ddpbench::ops::cuda {
namespace {

// Without a fused multiply-add, whose other rounding would give other batches than the loader does.
__host__ __device__ inline float scaled(float byte, float scale, float offset) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(byte, scale), offset);
#else
  return byte * scale + offset;
#endif
}

struct Gather {
  const std::uint8_t *images, *labels;
  const std::int32_t* indices;
  const std::uint64_t* position;
  std::uint32_t sample_elements, channel_elements;
  float scale[kMaxGatherChannels], offset[kMaxGatherChannels];
  float* out;
  std::int32_t* labels_out;

  __host__ __device__ void operator()(std::uint32_t i) const {
    const std::uint32_t slot = i / sample_elements, element = i % sample_elements;
    const std::uint64_t first = position != nullptr ? *position : 0;
    const auto sample = static_cast<std::uint64_t>(indices[first + slot]);
    const std::uint32_t channel = element / channel_elements;
    out[i] = scaled(static_cast<float>(images[sample * sample_elements + element]), scale[channel],
                    offset[channel]);
    if (element == 0) labels_out[slot] = labels[sample];
  }
};

}  // namespace

cudaError_t gather_batch(const GatherArgs& args, cudaStream_t stream) {
  if (args.mean.size() > kMaxGatherChannels) return cudaErrorInvalidValue;
  Gather body{};
  body.images = args.images;
  body.labels = args.labels;
  body.indices = args.indices;
  body.position = args.position;
  body.sample_elements = static_cast<std::uint32_t>(args.sample_elements);
  body.channel_elements = static_cast<std::uint32_t>(args.sample_elements / args.channels);
  for (std::size_t c = 0; c < args.mean.size(); ++c) {
    const ByteScale scale = byte_scale(args.mean[c], args.std[c]);
    body.scale[c] = scale.factor;
    body.offset[c] = scale.offset;
  }
  body.out = args.out;
  body.labels_out = args.labels_out;
  return for_each(static_cast<std::uint32_t>(args.batch * args.sample_elements), stream, body);
}

}  // namespace ddpbench::ops::cuda
