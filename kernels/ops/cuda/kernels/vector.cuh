// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Several neighbouring numbers in one access. A thread that moves 16 bytes at once needs a quarter
// (bf16: an eighth) of the instructions and keeps more bytes in flight.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#endif

#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {

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
__host__ __device__ inline std::uint32_t pack_bf16(float first, float second) {
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

// kCount numbers in memory's format. Reads whose words are unpacked later are in flight together.
template <typename T, std::uint32_t kCount>
using Packed = Words<kCount * sizeof(T) / sizeof(std::uint32_t)>;

// fp32 has one number in a word, bf16 two.
template <std::uint32_t kCount>
__host__ __device__ void unpack(const Words<kCount>& words, float (&to)[kCount]) {
  memcpy(to, words.word, sizeof(to));
}
template <std::uint32_t kCount>
__host__ __device__ void unpack(const Words<kCount>& words, float (&to)[2 * kCount]) {
  DDPBENCH_UNROLL
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::uint32_t halves[2] = {words.word[i] << 16, words.word[i] & 0xffff0000U};
    memcpy(&to[2 * i], halves, sizeof(halves));
  }
}

// Reads kCount numbers from an address that is a multiple of their size together.
template <typename T, std::uint32_t kCount>
__host__ __device__ void load(const T* from, float (&to)[kCount]) {
  static_assert(kCount * sizeof(T) % sizeof(std::uint32_t) == 0);
  unpack(read_words<kCount * sizeof(T) / sizeof(std::uint32_t)>(from), to);
}

// Writes the numbers, rounded to the type.
template <std::uint32_t kCount>
__host__ __device__ void store(float* to, const float (&from)[kCount]) {
  Words<kCount> words;
  memcpy(words.word, from, sizeof(from));
  write_words(to, words);
}
template <std::uint32_t kCount>
__host__ __device__ void store(Bf16* to, const float (&from)[kCount]) {
  static_assert(kCount % 2 == 0);
  Words<kCount / 2> words;
  DDPBENCH_UNROLL
  for (std::uint32_t i = 0; i < kCount; i += 2) {
    words.word[i / 2] = pack_bf16(from[i], from[i + 1]);
  }
  write_words(to, words);
}

}  // namespace ddpbench::ops::cuda
