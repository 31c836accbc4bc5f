// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See ring_kernels.h. Peers' memory is read past the caches (ld.cv): another GPU or process writes
// it between kernels.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "parallel/comm/cuda/ring_kernels.h"

namespace ddpbench::comm {

namespace {

constexpr int kThreads = 512;
// Blocks of one kernel: few, because the network computes meanwhile; enough for a link's latency.
constexpr int kMaxBlocks = 32;
constexpr std::size_t kVector = 16;
constexpr int kPacksAtOnce = 4;  // vectors of one rank that a thread has under way
constexpr std::size_t kBytesPerBlock = kThreads * kPacksAtOnce * kVector;

__device__ const char* resolve(const RingTable& table, const std::uint64_t* offer, int peer) {
  const std::uint64_t word = *static_cast<const volatile std::uint64_t*>(offer);
  const std::uint64_t tag = word >> kOfferBits;
  const std::uint64_t place = word & ((std::uint64_t{1} << kOfferBits) - 1);
  if (tag == 0 || *static_cast<const volatile std::uint32_t*>(table.aborted) != 0) return nullptr;
  if (tag == kOfferAddress) return reinterpret_cast<const char*>(place);
  if (tag > kRingRegistrations) return nullptr;
  const volatile std::uint64_t* const base =
      table.bases + static_cast<std::size_t>(peer) * kRingRegistrations + (tag - 1);
  const std::uint64_t mapped = *base;
  return mapped == 0 ? nullptr : reinterpret_cast<const char*>(mapped + place);
}

__device__ bool aligned(const void* pointer, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

__device__ std::size_t grid_thread() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Copies `count` units of T; four loads are under way before the first store.
template <typename T>
__device__ void copy_units(char* target, const char* source, std::size_t count) {
  T* const to = reinterpret_cast<T*>(target);
  const T* const from = reinterpret_cast<const T*>(source);
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  std::size_t i = grid_thread();
  for (; i + 3 * stride < count; i += 4 * stride) {
    const T a = __ldcv(from + i), b = __ldcv(from + i + stride);
    const T c = __ldcv(from + i + 2 * stride), d = __ldcv(from + i + 3 * stride);
    to[i] = a;
    to[i + stride] = b;
    to[i + 2 * stride] = c;
    to[i + 3 * stride] = d;
  }
  for (; i < count; i += stride) to[i] = __ldcv(from + i);
}

template <typename T>
__device__ void copy_bytes(char* target, const char* source, std::size_t bytes) {
  const std::size_t units = bytes / sizeof(T);
  copy_units<T>(target, source, units);
  const std::size_t done = units * sizeof(T);
  copy_units<unsigned char>(target + done, source + done, bytes - done);
}

// blockIdx.y: which pull.
__global__ void __launch_bounds__(kThreads) pull_kernel(const __grid_constant__ RingPulls pulls) {
  __shared__ const char* found;
  const RingPull& pull = pulls.pulls[blockIdx.y];
  if (threadIdx.x == 0) found = resolve(pulls.table, pull.offer, pull.peer);
  __syncthreads();
  const char* const source = found;
  if (source == nullptr) return;
  char* const target = static_cast<char*>(pull.target);
  if (aligned(source, kVector) && aligned(target, kVector)) {
    copy_bytes<uint4>(target, source, pull.bytes);
  } else if (aligned(source, 4) && aligned(target, 4)) {
    copy_bytes<unsigned int>(target, source, pull.bytes);
  } else {
    copy_bytes<unsigned char>(target, source, pull.bytes);
  }
}

__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }
template <typename T>
__device__ inline T from_float(float x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return __float2bfloat16_rn(x);
  }
}
template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <typename T, bool kMaximum>
__device__ inline T combine(T a, T b) {
  if constexpr (kIsHalf<T>) {
    const float x = to_float(a), y = to_float(b);
    if constexpr (kMaximum) return x >= y || x != x ? a : b;
    return from_float<T>(x + y);
  } else if constexpr (kMaximum && std::is_integral_v<T>) {
    return a >= b ? a : b;
  } else if constexpr (kMaximum) {
    return a >= b || a != a ? a : b;  // the maximum of a NaN is a NaN
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <typename T>
__device__ inline T divide(T x, int divisor) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(__fdiv_rn(to_float(x), static_cast<float>(divisor)));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<long long>(x) / divisor);
  } else if constexpr (std::is_same_v<T, double>) {
    return __ddiv_rn(x, static_cast<double>(divisor));
  } else {
    return __fdiv_rn(x, static_cast<float>(divisor));
  }
}

template <typename T>
struct alignas(kVector) Pack {
  T values[kVector / sizeof(T)];
};

template <typename T>
__device__ inline Pack<T> load_pack(const char* source, std::size_t i) {
  const uint4 raw = __ldcv(reinterpret_cast<const uint4*>(source) + i);
  Pack<T> pack;
  memcpy(&pack, &raw, kVector);
  return pack;
}

template <typename T>
__device__ inline T load_one(const char* source, std::size_t i) {
  using Raw = std::conditional_t<
      sizeof(T) == 1, unsigned char,
      std::conditional_t<sizeof(T) == 2, unsigned short,
                         std::conditional_t<sizeof(T) == 4, unsigned int, unsigned long long>>>;
  const Raw raw = __ldcv(reinterpret_cast<const Raw*>(source) + i);
  T value;
  memcpy(&value, &raw, sizeof(T));
  return value;
}

// kCount packs, `stride` apart. All of a rank's are asked for before the first is used: few blocks
// have to keep a link, or the memory, busy.
template <typename T, bool kMaximum, int kCount>
__device__ inline void reduce_packs(const RingReduction& r, const char* const* sources,
                                    std::size_t first, std::size_t stride, int divisor) {
  Pack<T> sums[kCount], others[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    sums[k] = load_pack<T>(sources[0], first + static_cast<std::size_t>(k) * stride);
  }
#pragma unroll 1
  for (int peer = 1; peer < r.size; ++peer) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      others[k] = load_pack<T>(sources[peer], first + static_cast<std::size_t>(k) * stride);
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
#pragma unroll
      for (std::size_t e = 0; e < kVector / sizeof(T); ++e) {
        sums[k].values[e] = combine<T, kMaximum>(sums[k].values[e], others[k].values[e]);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    if (divisor != 1) {
#pragma unroll
      for (T& value : sums[k].values) value = divide(value, divisor);
    }
    static_cast<Pack<T>*>(r.target)[first + static_cast<std::size_t>(k) * stride] = sums[k];
  }
}

// Two blocks fit into a multiprocessor, so that one fits beside the network's.
template <typename T, bool kMaximum>
__global__ void __launch_bounds__(kThreads, 2)
    reduce_kernel(const __grid_constant__ RingReduction r, int divisor) {
  __shared__ const char* sources[kMaxRingRanks];
  if (threadIdx.x < r.size) {
    const int peer = static_cast<int>(threadIdx.x);
    sources[peer] = peer == r.rank
                        ? static_cast<const char*>(r.own)
                        : resolve(r.table,
                                  r.offers + static_cast<std::size_t>(peer) *
                                                 static_cast<std::size_t>(r.offer_stride),
                                  peer);
  }
  __syncthreads();
  bool vectors = aligned(r.target, kVector);
  for (int peer = 0; peer < r.size; ++peer) {
    if (sources[peer] == nullptr) return;
    vectors = vectors && aligned(sources[peer], kVector);
  }
  constexpr std::size_t kWidth = kVector / sizeof(T);
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t packs = vectors ? r.count / kWidth : 0;
  // Bytes would need too many registers, and nobody waits for large maxima.
  constexpr int kPacks = sizeof(T) == 1 || kMaximum ? 1 : kPacksAtOnce;
  std::size_t next = grid_thread();
  for (; next + (kPacks - 1) * stride < packs; next += kPacks * stride) {
    reduce_packs<T, kMaximum, kPacks>(r, sources, next, stride, divisor);
  }
  for (; next < packs; next += stride) {
    reduce_packs<T, kMaximum, 1>(r, sources, next, stride, divisor);
  }
  for (std::size_t i = packs * kWidth + grid_thread(); i < r.count; i += stride) {
    T sum = load_one<T>(sources[0], i);
    for (int peer = 1; peer < r.size; ++peer) {
      sum = combine<T, kMaximum>(sum, load_one<T>(sources[peer], i));
    }
    static_cast<T*>(r.target)[i] = divisor != 1 ? divide(sum, divisor) : sum;
  }
}

unsigned blocks_for(std::size_t bytes) {
  const std::size_t blocks = (bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  return static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, kMaxBlocks));
}

template <typename T>
void launch_typed(const RingReduction& r, cudaStream_t stream) {
  const int divisor = r.op == ReduceOp::average ? r.size : 1;
  const unsigned blocks = blocks_for(r.count * sizeof(T));
  if (r.op == ReduceOp::maximum) {
    reduce_kernel<T, true><<<blocks, kThreads, 0, stream>>>(r, divisor);
  } else {
    reduce_kernel<T, false><<<blocks, kThreads, 0, stream>>>(r, divisor);
  }
}

}  // namespace

cudaError_t launch_pulls(const RingPulls& pulls, cudaStream_t stream) {
  std::size_t most = 0;
  for (int i = 0; i < pulls.count; ++i) most = std::max(most, pulls.pulls[i].bytes);
  if (most == 0) return cudaSuccess;
  const dim3 grid(blocks_for(most), static_cast<unsigned>(pulls.count));
  pull_kernel<<<grid, kThreads, 0, stream>>>(pulls);
  return cudaGetLastError();
}

cudaError_t launch_reduction(const RingReduction& r, cudaStream_t stream) {
  if (r.count == 0) return cudaSuccess;
  switch (r.type) {
    case DataType::fp32:
      launch_typed<float>(r, stream);
      break;
    case DataType::fp64:
      launch_typed<double>(r, stream);
      break;
    case DataType::bf16:
      launch_typed<__nv_bfloat16>(r, stream);
      break;
    case DataType::fp16:
      launch_typed<__half>(r, stream);
      break;
    case DataType::int32:
      launch_typed<std::int32_t>(r, stream);
      break;
    case DataType::int64:
      launch_typed<long long>(r, stream);
      break;
    case DataType::uint8:
      launch_typed<std::uint8_t>(r, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace ddpbench::comm
