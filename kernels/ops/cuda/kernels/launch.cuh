// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How the project's own kernels are written and launched. A kernel's body is a functor: the work of
// one element, or of one thread in one phase of its block. All threads meet between phases.
//
// nvcc turns a body into a kernel. A host compiler turns it into loops over blocks and threads.
// tests/cuda runs those, so bodies, index arithmetic and phases are tested without a GPU. Apart
// from some intrinsics (number.cuh) only this header differs in the two.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#ifndef __CUDACC__
#include <cstring>
#include <functional>
#include <memory>
#endif

// UNROLL goes before a short loop of constant length whose arrays must stay in registers. UNROLL_BY
// goes before a loop whose reads must be in flight together; by 1, it keeps a loop a loop.
#ifdef __CUDACC__
#define DDPBENCH_PRAGMA(text) _Pragma(#text)
#define DDPBENCH_UNROLL _Pragma("unroll")
#define DDPBENCH_UNROLL_BY(rounds) DDPBENCH_PRAGMA(unroll rounds)
#else
#define DDPBENCH_UNROLL
#define DDPBENCH_UNROLL_BY(rounds)
#endif

namespace ddpbench::ops::cuda {

// for_each: the threads of a block. Fewer than 2^31 elements, so that no 32-bit index overflows.
inline constexpr unsigned kElementThreads = 256;
inline constexpr unsigned kMaxElementBlocks = 1U << 20;

// The blocks that must fit on a multiprocessor at once. A body that does not say gets 0: the
// compiler chooses.
template <typename Body>
inline constexpr int kBlocksAtOnce = [] {
  if constexpr (requires { Body::kBlocksAtOnce; }) {
    return Body::kBlocksAtOnce;
  } else {
    return 0;
  }
}();

#ifdef __CUDACC__

template <typename Body>
__global__ void __launch_bounds__(kElementThreads)
    run_elements(const __grid_constant__ std::uint32_t count, const __grid_constant__ Body body) {
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) body(i);
}

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads, kBlocksAtOnce<Body>)
    run_blocks(const __grid_constant__ Body body) {
  __shared__ typename Body::Shared shared;
#pragma unroll
  for (int phase = 0; phase < Body::kPhases; ++phase) {
    if (phase > 0) __syncthreads();
    body(phase, shared, blockIdx.x, threadIdx.x);
  }
}

// Calls body(i) for every i below `count`, in any order.
template <typename Body>
cudaError_t for_each(std::uint32_t count, cudaStream_t stream, const Body& body) {
  if (count == 0) return cudaSuccess;
  std::uint32_t blocks = (count + kElementThreads - 1) / kElementThreads;
  if (blocks > kMaxElementBlocks) blocks = kMaxElementBlocks;
  run_elements<<<blocks, kElementThreads, 0, stream>>>(count, body);
  return cudaGetLastError();
}

// Calls body(phase, shared, block, thread) for every phase in turn, in all `blocks` blocks of
// Body::kThreads threads.
template <typename Body>
cudaError_t for_each_block(std::uint32_t blocks, cudaStream_t stream, const Body& body) {
  if (blocks == 0) return cudaSuccess;
  run_blocks<<<blocks, Body::kThreads, 0, stream>>>(body);
  return cudaGetLastError();
}

#else

// Queues `work` on a stream of the host. Defined by tests/cuda.
cudaError_t queue_on_host(cudaStream_t stream, std::function<void()> work);

template <typename Body>
cudaError_t for_each(std::uint32_t count, cudaStream_t stream, const Body& body) {
  return queue_on_host(stream, [=] {
    for (std::uint32_t i = 0; i < count; ++i) body(i);
  });
}

template <typename Body>
cudaError_t for_each_block(std::uint32_t blocks, cudaStream_t stream, const Body& body) {
  return queue_on_host(stream, [=] {
    const auto shared = std::make_unique<typename Body::Shared>();
    for (std::uint32_t block = 0; block < blocks; ++block) {
      std::memset(shared.get(), 0xFF, sizeof(*shared));  // a read before a write gives NaN
      for (int phase = 0; phase < Body::kPhases; ++phase) {
        for (std::uint32_t thread = 0; thread < Body::kThreads; ++thread) {
          body(phase, *shared, block, thread);
        }
      }
    }
  });
}

#endif

}  // namespace ddpbench::ops::cuda
