// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See ipc_kernels.h. Peers' memory is read past the caches (ld.cv): another GPU or process writes
// it between kernels.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/runtime/cuda/launch.cuh"
#include "parallel/comm/cuda/ipc/ipc_kernels.h"

namespace ddpbench::comm {

namespace {

constexpr std::uint32_t kThreads = 512;
// Blocks of one kernel: few, as the network computes meanwhile, yet enough for a link's latency.
constexpr std::uint32_t kMaxBlocks = 32;
constexpr std::size_t kVector = 16;
constexpr int kPacksAtOnce = 4;  // vectors of one rank that a thread has in flight
constexpr std::size_t kBytesPerBlock = kThreads * kPacksAtOnce * kVector;

// Host memory that another processor writes.
template <typename T>
__host__ __device__ inline T read_now(const T* word) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile T*>(word);
#else
  return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

template <typename T>
__host__ __device__ inline T load_past_caches(const T* from) {
#ifdef __CUDA_ARCH__
  return __ldcv(from);
#else
  return *from;
#endif
}

__host__ __device__ inline const char* resolve(const IpcTable& table, const std::uint64_t* offer,
                                               int peer) {
  // Both are in host memory: loaded together, the second costs no round trip of its own.
  const std::uint64_t word = read_now(offer);
  const auto aborted = read_now(table.aborted);
  const std::uint64_t tag = word >> kOfferBits;
  const std::uint64_t place = word & ((std::uint64_t{1} << kOfferBits) - 1);
  if (tag == 0 || aborted != 0) return nullptr;
  if (tag == kOfferAddress) return reinterpret_cast<const char*>(place);
  if (tag > kIpcRegistrations) return nullptr;
  const std::uint64_t mapped =
      read_now(table.bases + static_cast<std::size_t>(peer) * kIpcRegistrations + (tag - 1));
  return mapped == 0 ? nullptr : reinterpret_cast<const char*>(mapped + place);
}

__host__ __device__ inline bool aligned(const void* pointer, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

// The threads that share a piece of work: this one's number, and how many there are.
struct Team {
  std::size_t thread, threads;
};

// Copies `count` units of T; four loads are in flight before the first store.
template <typename T>
__host__ __device__ void copy_units(char* target, const char* source, std::size_t count,
                                    const Team& team) {
  T* const to = reinterpret_cast<T*>(target);
  const T* const from = reinterpret_cast<const T*>(source);
  const std::size_t stride = team.threads;
  std::size_t i = team.thread;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const T a = load_past_caches(from + i), b = load_past_caches(from + i + stride);
    const T c = load_past_caches(from + i + 2 * stride),
            d = load_past_caches(from + i + 3 * stride);
    to[i] = a;
    to[i + stride] = b;
    to[i + 2 * stride] = c;
    to[i + 3 * stride] = d;
  }
  for (; i < count; i += stride) to[i] = load_past_caches(from + i);
}

template <typename T>
__host__ __device__ void copy_bytes(char* target, const char* source, std::size_t bytes,
                                    const Team& team) {
  const std::size_t units = bytes / sizeof(T);
  copy_units<T>(target, source, units, team);
  const std::size_t done = units * sizeof(T);
  copy_units<unsigned char>(target + done, source + done, bytes - done, team);
}

// Each pull gets `blocks` blocks.
struct Pulls {
  static constexpr std::uint32_t kThreads = comm::kThreads;
  static constexpr int kPhases = 2;
  static constexpr int kBlocksAtOnce = 2;
  struct Shared {
    const char* source;
  };

  IpcPulls pulls;
  std::uint32_t blocks;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const IpcPull& pull = pulls.pulls[block / blocks];
    if (phase == 0) {
      if (thread == 0) shared.source = resolve(pulls.table, pull.offer, pull.peer);
    } else if (shared.source != nullptr) {
      copy(pull, shared.source,
           {std::size_t{block % blocks} * kThreads + thread, std::size_t{blocks} * kThreads});
    }
  }

  __host__ __device__ static void copy(const IpcPull& pull, const char* source, const Team& team) {
    char* const target = static_cast<char*>(pull.target);
    if (aligned(source, kVector) && aligned(target, kVector)) {
      copy_bytes<uint4>(target, source, pull.bytes, team);
    } else if (aligned(source, 4) && aligned(target, 4)) {
      copy_bytes<unsigned int>(target, source, pull.bytes, team);
    } else {
      copy_bytes<unsigned char>(target, source, pull.bytes, team);
    }
  }
};

__host__ __device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__host__ __device__ inline float to_float(__half x) { return __half2float(x); }
template <typename T>
__host__ __device__ inline T from_float(float x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return __float2bfloat16_rn(x);
  }
}
template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <typename T, bool kMaximum>
__host__ __device__ inline T combine(T a, T b) {
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

// Rounds to the nearest: nothing here is compiled for fast divisions.
template <typename T>
__host__ __device__ inline T divide(T x, int divisor) {
  if constexpr (kIsHalf<T>) {
    return from_float<T>(to_float(x) / static_cast<float>(divisor));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<long long>(x) / divisor);
  } else {
    return x / static_cast<T>(divisor);
  }
}

template <typename T>
struct alignas(kVector) Pack {
  T values[kVector / sizeof(T)];
};

template <typename T>
__host__ __device__ inline Pack<T> load_pack(const char* source, std::size_t i) {
  const uint4 raw = load_past_caches(reinterpret_cast<const uint4*>(source) + i);
  Pack<T> pack;
  memcpy(static_cast<void*>(&pack), &raw, kVector);
  return pack;
}

template <typename T>
__host__ __device__ inline T load_one(const char* source, std::size_t i) {
  using Raw = std::conditional_t<
      sizeof(T) == 1, unsigned char,
      std::conditional_t<sizeof(T) == 2, unsigned short,
                         std::conditional_t<sizeof(T) == 4, unsigned int, unsigned long long>>>;
  const Raw raw = load_past_caches(reinterpret_cast<const Raw*>(source) + i);
  T value;
  memcpy(static_cast<void*>(&value), &raw, sizeof(T));
  return value;
}

template <typename T, bool kMaximum>
struct Reduction {
  static constexpr std::uint32_t kThreads = comm::kThreads;
  static constexpr int kPhases = 2;
  static constexpr int kBlocksAtOnce = 2;  // so that one fits beside the network's blocks
  // Bytes would need too many registers, and no strategy computes large maxima.
  static constexpr int kPacks = sizeof(T) == 1 || kMaximum ? 1 : kPacksAtOnce;
  static constexpr std::size_t kWidth = kVector / sizeof(T);
  struct Shared {
    const char* sources[kMaxIpcRanks];
  };

  IpcReduction r;
  std::uint32_t blocks;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    if (phase == 0) {
      if (thread < static_cast<std::uint32_t>(r.size)) {
        shared.sources[thread] = source_of(static_cast<int>(thread));
      }
    } else {
      reduce(shared.sources,
             {std::size_t{block} * kThreads + thread, std::size_t{blocks} * kThreads});
    }
  }

  __host__ __device__ const char* source_of(int peer) const {
    if (peer == r.rank) return static_cast<const char*>(r.own);
    const auto row = static_cast<std::size_t>(peer) * static_cast<std::size_t>(r.offer_stride);
    return resolve(r.table, r.offers + row, peer);
  }

  __host__ __device__ void reduce(const char* const* sources, const Team& team) const {
    bool vectors = aligned(r.target, kVector);
    for (int peer = 0; peer < r.size; ++peer) {
      if (sources[peer] == nullptr) return;
      vectors = vectors && aligned(sources[peer], kVector);
    }
    const std::size_t packs = vectors ? r.count / kWidth : 0, stride = team.threads;
    std::size_t next = team.thread;
    for (; next + (kPacks - 1) * stride < packs; next += kPacks * stride) {
      reduce_packs<kPacks>(sources, next, stride);
    }
    for (; next < packs; next += stride) reduce_packs<1>(sources, next, stride);
    for (std::size_t i = packs * kWidth + team.thread; i < r.count; i += stride) {
      T sum = load_one<T>(sources[0], i);
      for (int peer = 1; peer < r.size; ++peer) {
        sum = combine<T, kMaximum>(sum, load_one<T>(sources[peer], i));
      }
      static_cast<T*>(r.target)[i] = r.divisor != 1 ? divide(sum, r.divisor) : sum;
    }
  }

  // Reduces kCount packs, `stride` apart. All packs of a rank are loaded before the first is used,
  // because few blocks have to keep a link, or the memory, busy.
  template <int kCount>
  __host__ __device__ void reduce_packs(const char* const* sources, std::size_t first,
                                        std::size_t stride) const {
    Pack<T> sums[kCount], others[kCount];
    DDPBENCH_UNROLL
    for (int k = 0; k < kCount; ++k) {
      sums[k] = load_pack<T>(sources[0], first + static_cast<std::size_t>(k) * stride);
    }
    DDPBENCH_UNROLL_BY(1)
    for (int peer = 1; peer < r.size; ++peer) {
      DDPBENCH_UNROLL
      for (int k = 0; k < kCount; ++k) {
        others[k] = load_pack<T>(sources[peer], first + static_cast<std::size_t>(k) * stride);
      }
      DDPBENCH_UNROLL
      for (int k = 0; k < kCount; ++k) {
        DDPBENCH_UNROLL
        for (std::size_t e = 0; e < kWidth; ++e) {
          sums[k].values[e] = combine<T, kMaximum>(sums[k].values[e], others[k].values[e]);
        }
      }
    }
    DDPBENCH_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (r.divisor != 1) {
        DDPBENCH_UNROLL
        for (T& value : sums[k].values) value = divide(value, r.divisor);
      }
      static_cast<Pack<T>*>(r.target)[first + static_cast<std::size_t>(k) * stride] = sums[k];
    }
  }
};

std::uint32_t blocks_for(std::size_t bytes) {
  const std::size_t blocks = (bytes + kBytesPerBlock - 1) / kBytesPerBlock;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(blocks, 1, kMaxBlocks));
}

template <typename T, bool kMaximum>
cudaError_t launch_body(const IpcReduction& r, cudaStream_t stream) {
  const std::uint32_t blocks = blocks_for(r.count * sizeof(T));
  return cuda::for_each_block(blocks, stream, Reduction<T, kMaximum>{r, blocks});
}

template <typename T>
cudaError_t launch_typed(const IpcReduction& r, cudaStream_t stream) {
  return r.op == ReduceOp::maximum ? launch_body<T, true>(r, stream)
                                   : launch_body<T, false>(r, stream);
}

}  // namespace

cudaError_t launch_pulls(const IpcPulls& pulls, cudaStream_t stream) {
  std::size_t most = 0;
  for (int i = 0; i < pulls.count; ++i) most = std::max(most, pulls.pulls[i].bytes);
  if (most == 0) return cudaSuccess;
  const std::uint32_t blocks = blocks_for(most);
  return cuda::for_each_block(blocks * static_cast<std::uint32_t>(pulls.count), stream,
                              Pulls{pulls, blocks});
}

cudaError_t launch_reduction(const IpcReduction& r, cudaStream_t stream) {
  if (r.count == 0) return cudaSuccess;
  switch (r.type) {
    case DataType::fp32:
      return launch_typed<float>(r, stream);
    case DataType::fp64:
      return launch_typed<double>(r, stream);
    case DataType::bf16:
      return launch_typed<__nv_bfloat16>(r, stream);
    case DataType::fp16:
      return launch_typed<__half>(r, stream);
    case DataType::int32:
      return launch_typed<std::int32_t>(r, stream);
    case DataType::int64:
      return launch_typed<long long>(r, stream);
    case DataType::uint8:
      return launch_typed<std::uint8_t>(r, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace ddpbench::comm
