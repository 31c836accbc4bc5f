// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Encodings of flat buffers. Casts are bound by memory bandwidth; the others have one thread a run.
#include "kernels/ops/cuda/kernels/flat_kernels.h"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"
#include "kernels/ops/encoding.h"

namespace ddpbench::ops::cuda {
namespace {

template <typename T>
struct CastTo {
  EncodeArgs args;
  __host__ __device__ void operator()(std::uint32_t i) const {
    static_cast<T*>(args.out)[i] = from_float<T>(args.in[i] * args.scale);
  }
};
template <typename T>
struct CastFrom {
  DecodeArgs args;
  __host__ __device__ void operator()(std::uint32_t i) const {
    args.out[i] = to_float(static_cast<const T*>(args.in)[i]);
  }
};
struct EncodeRun {
  EncodeArgs args;
  __host__ __device__ void operator()(std::uint32_t run) const { encode_run(args, run); }
};
struct DecodeRun {
  DecodeArgs args;
  __host__ __device__ void operator()(std::uint32_t run) const { decode_run(args, run); }
};

struct SumProducts {
  OrthonormalArgs args;
  std::size_t column;
  __host__ __device__ void operator()(std::uint32_t i) const {
    args.sum_products(column, column + i);
  }
};
struct TakeOut {
  OrthonormalArgs args;
  std::size_t column;
  __host__ __device__ void operator()(std::uint32_t row) const { args.take_out(column, row); }
};

template <typename AsBf16, typename AsFp16, typename ByRun, typename Args>
cudaError_t launch(const Args& args, cudaStream_t stream) {
  const auto count = static_cast<std::uint32_t>(args.count);
  if (args.encoding.kind == Encoding::Kind::bf16) return for_each(count, stream, AsBf16{args});
  if (args.encoding.kind == Encoding::Kind::fp16) return for_each(count, stream, AsFp16{args});
  const auto run = static_cast<std::uint32_t>(args.encoding.run());
  return for_each(ceil_div(count, run), stream, ByRun{args});
}

}  // namespace

cudaError_t encode(const EncodeArgs& args, cudaStream_t stream) {
  return launch<CastTo<Bf16>, CastTo<Fp16>, EncodeRun>(args, stream);
}
cudaError_t decode(const DecodeArgs& args, cudaStream_t stream) {
  return launch<CastFrom<Bf16>, CastFrom<Fp16>, DecodeRun>(args, stream);
}

cudaError_t orthonormalize(const OrthonormalArgs& args, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  for (std::size_t i = 0; i < args.kPasses * args.width && status == cudaSuccess; ++i) {
    const std::size_t column = i % args.width;
    for_each(static_cast<std::uint32_t>(args.width - column), stream, SumProducts{args, column});
    status = for_each(static_cast<std::uint32_t>(args.rows), stream, TakeOut{args, column});
  }
  return status;
}

}  // namespace ddpbench::ops::cuda
