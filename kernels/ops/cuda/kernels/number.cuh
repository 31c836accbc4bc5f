// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as the own kernels read and write them, alone and several at once, and division. Memory
// holds fp32, bf16 or fp16; arithmetic is fp32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "base/math.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/runtime/bfloat16.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// The upper half of a float.
struct Bf16 {
  std::uint16_t bits;
};

__host__ __device__ inline float to_float(float value) { return value; }

__host__ __device__ inline float to_float(Bf16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

template <typename T>
__host__ __device__ T from_float(float value);

template <>
__host__ __device__ inline float from_float<float>(float value) {
  return value;
}

// Rounds to the nearest, ties to even; NaN stays NaN.
template <>
__host__ __device__ inline Bf16 from_float<Bf16>(float value) {
#ifdef __CUDA_ARCH__
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);  // one instruction from 8.0 on
  Bf16 result;
  memcpy(&result, &rounded, sizeof(result));
  return result;
#else
  return {BFloat16::round(value).bits};
#endif
}

#ifdef __CUDACC__
using Fp16 = __half;
#else
using Fp16 = _Float16;
#endif
__host__ __device__ inline float to_float(Fp16 value) { return static_cast<float>(value); }
template <>
__host__ __device__ inline Fp16 from_float<Fp16>(float value) {
  return static_cast<Fp16>(value);  // rounds to the nearest, ties to even
}

// Calls with_type(T()) for the type of the elements. Other types are an invalid argument.
template <typename WithType>
cudaError_t with_element_type(DataType type, const WithType& with_type) {
  if (type == DataType::fp32) return with_type(float());
  if (type == DataType::bf16) return with_type(Bf16());
  if (type == DataType::fp16) return with_type(Fp16());
  return cudaErrorInvalidValue;
}

// ---- vectors ----

// Several neighbouring numbers in one access. A thread that moves 16 bytes at once needs a quarter
// (bf16 and fp16: an eighth) of the instructions and keeps more bytes in flight.
inline constexpr std::uint32_t kVectorBytes = 16;  // the most that one instruction moves
template <typename T>
inline constexpr std::uint32_t kVectorOf = kVectorBytes / sizeof(T);

// Whether all addresses may be read as vectors. Null counts as aligned.
template <typename... Pointers>
bool are_vector_aligned(const Pointers*... addresses) {
  return (true && ... && (reinterpret_cast<std::uintptr_t>(addresses) % kVectorBytes == 0));
}

// The words of a vector.
template <std::uint32_t kCount>
struct alignas(4 * kCount) Words {
  std::uint32_t word[kCount];
};

// One access on a GPU, where an address that is no multiple of its size is an error. The host then
// reads NaN and writes nothing, so that tests see it. It copies by memcpy, since its compiler may
// assume that words and numbers never share memory.
template <std::uint32_t kCount>
__host__ __device__ Words<kCount> read_words(const void* from) {
#ifdef __CUDA_ARCH__
  return *static_cast<const Words<kCount>*>(from);
#else
  Words<kCount> words;
  memset(&words, 0xFF, sizeof(words));
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(words) == 0) {
    memcpy(&words, from, sizeof(words));
  }
  return words;
#endif
}
template <std::uint32_t kCount>
__host__ __device__ void write_words(void* to, const Words<kCount>& words) {
#ifdef __CUDA_ARCH__
  *static_cast<Words<kCount>*>(to) = words;
#else
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(words) == 0) memcpy(to, &words, sizeof(words));
#endif
}

// Two numbers in one word, the first in the lower half.
template <typename T>
__host__ __device__ std::uint32_t pack_pair(float first, float second);
template <>
__host__ __device__ inline std::uint32_t pack_pair<Bf16>(float first, float second) {
#ifdef __CUDA_ARCH__
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  std::uint32_t word;
  memcpy(&word, &pair, sizeof(word));
  return word;
#else
  return from_float<Bf16>(first).bits | static_cast<std::uint32_t>(from_float<Bf16>(second).bits)
                                            << 16;
#endif
}
template <>
__host__ __device__ inline std::uint32_t pack_pair<Fp16>(float first, float second) {
  const Fp16 pair[2] = {from_float<Fp16>(first), from_float<Fp16>(second)};
  std::uint32_t word;
  memcpy(&word, pair, sizeof(word));
  return word;
}
template <typename T>
__host__ __device__ void unpack_pair(std::uint32_t word, float* to);
template <>
__host__ __device__ inline void unpack_pair<Bf16>(std::uint32_t word, float* to) {
  const std::uint32_t halves[2] = {word << 16, word & 0xffff0000U};
  memcpy(to, halves, sizeof(halves));
}
template <>
__host__ __device__ inline void unpack_pair<Fp16>(std::uint32_t word, float* to) {
  Fp16 pair[2];
  memcpy(pair, &word, sizeof(word));
  to[0] = to_float(pair[0]);
  to[1] = to_float(pair[1]);
}

// kCount numbers in memory's format. Reads whose words are unpacked later are in flight together.
template <typename T, std::uint32_t kCount>
using Packed = Words<kCount * sizeof(T) / sizeof(std::uint32_t)>;

template <typename T, std::uint32_t kCount>
__host__ __device__ void unpack(const Packed<T, kCount>& words, float (&to)[kCount]) {
  static_assert(kCount * sizeof(T) % sizeof(std::uint32_t) == 0);
  if constexpr (sizeof(T) == sizeof(std::uint32_t)) {
    memcpy(to, words.word, sizeof(to));
  } else {
    DDPBENCH_UNROLL
    for (std::uint32_t i = 0; i < kCount; i += 2) unpack_pair<T>(words.word[i / 2], to + i);
  }
}

// Reads kCount numbers, from an address that is a multiple of their size together.
template <typename T, std::uint32_t kCount>
__host__ __device__ void load(const T* from, float (&to)[kCount]) {
  if constexpr (kCount == 1) {
    to[0] = to_float(*from);
  } else {
    unpack<T>(read_words<kCount * sizeof(T) / sizeof(std::uint32_t)>(from), to);
  }
}

// Writes the numbers, rounded to the type.
template <typename T, std::uint32_t kCount>
__host__ __device__ void store(T* to, const float (&from)[kCount]) {
  if constexpr (kCount == 1) {
    *to = from_float<T>(from[0]);
  } else if constexpr (sizeof(T) == sizeof(std::uint32_t)) {
    Words<kCount> words;
    memcpy(words.word, from, sizeof(from));
    write_words(to, words);
  } else {
    Packed<T, kCount> words;
    DDPBENCH_UNROLL
    for (std::uint32_t i = 0; i < kCount; i += 2) {
      words.word[i / 2] = pack_pair<T>(from[i], from[i + 1]);
    }
    write_words(to, words);
  }
}

// The elements [kCount i, kCount i + kCount) of thread i.
template <std::uint32_t kCount, typename Body>
struct TakeElements {
  Body body;
  std::uint32_t count;
  bool vectors;

  __host__ __device__ void operator()(std::uint32_t i) const {
    const std::uint32_t first = i * kCount;
    if (vectors && first + kCount <= count) {
      body.template take<kCount>(first);
      return;
    }
    for (std::uint32_t k = first; k < count && k < first + kCount; ++k) body.template take<1>(k);
  }
};

// Calls body.take<kCount>(first) for each kCount of `count` elements where `vectors`, else, and for
// the last ones, body.take<1>() for each.
template <std::uint32_t kCount, typename Body>
cudaError_t for_elements(std::uint32_t count, bool vectors, cudaStream_t stream, const Body& body) {
  return for_each(ceil_div(count, kCount), stream,
                  TakeElements<kCount, Body>{body, count, vectors});
}

// The sum of read(i) for i = first, first + step, ... below `end`, in this order. kReads of them
// are in flight together: the compiler may not move a read past the test for the end of a loop.
template <typename T, std::uint32_t kReads, typename Read>
__host__ __device__ T sum_every(std::uint32_t first, std::uint32_t step, std::uint32_t end,
                                const Read& read) {
  T sum = 0;
  DDPBENCH_UNROLL_BY(1)
  for (std::uint32_t begin = first; begin < end; begin += kReads * step) {
    T values[kReads];
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kReads; ++k) {
      const std::uint32_t i = begin + k * step;
      values[k] = i < end ? read(i) : T(0);
    }
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kReads; ++k) sum += values[k];
  }
  return sum;
}

// A body that adds up the rows of [rows][kSums][columns], in an order that depends on their number
// only. kParts threads of a column sum every kParts-th row; one adds these up and calls
// finish(column, sums).
template <typename T, std::uint32_t kSums, std::uint32_t kColumns, std::uint32_t kParts,
          std::uint32_t kReads, typename Finish>
struct AddUpRows {
  static constexpr std::uint32_t kThreads = kColumns * kParts;
  static constexpr int kPhases = 2;
  struct Shared {
    T sums[kSums][kParts][kColumns];
  };

  const T* matrix;
  std::uint32_t rows, columns;
  Finish finish;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const std::uint32_t lane = thread % kColumns, part = thread / kColumns;
    const std::uint32_t column = block * kColumns + lane;
    if (column >= columns) return;
    T sums[kSums] = {};
    DDPBENCH_UNROLL
    for (std::uint32_t s = 0; s < kSums; ++s) {
      if (phase == 0) {
        shared.sums[s][part][lane] =
            sum_every<T, kReads>(part, kParts, rows, [&](std::uint32_t row) {
              return matrix[(std::size_t{row} * kSums + s) * columns + column];
            });
      } else if (part == 0) {
        for (std::uint32_t p = 0; p < kParts; ++p) sums[s] += shared.sums[s][p][lane];
      }
    }
    if (phase == 1 && part == 0) finish(column, sums);
  }
};

// ---- division ----

// Division by a number that a whole launch shares: a multiplication and a shift, where a GPU needs
// about twenty instructions to divide. After Granlund and Montgomery, "Division by Invariant
// Integers using Multiplication" (PLDI 1994), section 4, for dividends below 2^31.
class Divisor {
 public:
  Divisor() = default;
  // REQUIRES: 0 < divisor < 2^31.
  explicit Divisor(std::uint32_t divisor) : divisor_(divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t rest = (std::uint64_t{1} << shift_) - divisor;
    factor_ = static_cast<std::uint32_t>((rest << 32) / divisor + 1);
  }

  __host__ __device__ std::uint32_t divisor() const { return divisor_; }

  // floor(value / divisor). REQUIRES: value < 2^31.
  __host__ __device__ std::uint32_t quotient(std::uint32_t value) const {
#ifdef __CUDA_ARCH__
    const std::uint32_t high = __umulhi(value, factor_);
#else
    const auto high = static_cast<std::uint32_t>((std::uint64_t{value} * factor_) >> 32);
#endif
    return (high + value) >> shift_;
  }

  // Leaves the quotient in `value` and returns the remainder.
  __host__ __device__ std::uint32_t split(std::uint32_t& value) const {
    const std::uint32_t whole = value;
    value = quotient(whole);
    return whole - value * divisor_;
  }

 private:
  std::uint32_t divisor_ = 1, factor_ = 1, shift_ = 0;
};

}  // namespace ddpbench::ops::cuda
