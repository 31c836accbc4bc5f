// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Encodings of flat buffers. Casts are bound by memory bandwidth: 6 bytes an element. int8 moves
// 13 bytes, `largest` 12 and passes up to 32 times over a run in the L1 cache.
//
// Compiled without fused multiply-adds: all ranks decode the same bits on any processor.
#include "kernels/ops/encoding.h"

#include <immintrin.h>

#include <type_traits>

#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

// Compilers make no vector instructions of conversions to and from fp16. Every processor with AVX2
// has these. Returns the first element that is left.
template <typename From, typename To>
[[gnu::target("avx,f16c")]] std::int64_t cast_vectors(const From* from, To* to, float scale,
                                                      std::int64_t i, std::int64_t end) {
  const __m256 factor = _mm256_set1_ps(scale);
  for (; i + 8 <= end; i += 8) {
    if constexpr (std::is_same_v<To, _Float16>) {
      const __m256 value = _mm256_mul_ps(_mm256_loadu_ps(from + i), factor);
      const __m128i halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
    } else {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_cvtph_ps(halves), factor));
    }
  }
  return i;
}

template <typename From, typename To>
void cast(Team team, const From* from, To* to, std::size_t count, float scale) {
  parallel_elements(
      team.threads, static_cast<std::int64_t>(count), [=](std::int64_t begin, std::int64_t end) {
        if constexpr (std::is_same_v<From, _Float16> || std::is_same_v<To, _Float16>) {
          if (team.simd != SimdLevel::portable) begin = cast_vectors(from, to, scale, begin, end);
        }
        run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
          for (std::int64_t i = begin; i < end; ++i)
            to[i] = from_float<To>(static_cast<float>(from[i]) * scale);
        });
      });
}

// Calls cast(a number of the type) for a cast, else by_run(run) for all runs.
template <typename Args, typename Cast, typename ByRun>
void dispatch(Team team, const Args& args, const Cast& cast, const ByRun& by_run) {
  if (args.encoding.kind == Encoding::Kind::bf16) return cast(BFloat16());
  if (args.encoding.kind == Encoding::Kind::fp16) return cast(_Float16());
  const auto count = static_cast<std::int64_t>(args.count);
  const auto run = static_cast<std::int64_t>(args.encoding.run());
  const int threads = count < kMinParallelElements ? 1 : team.threads;
  parallel_shares(threads, count, run, [=](int, std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
      for (std::int64_t i = begin; i < end; i += run) by_run(static_cast<std::size_t>(i / run));
    });
  });
}

}  // namespace

void encode(Team team, const EncodeArgs& args) {
  const auto cast_to = [&]<typename To>(To) {
    cast(team, args.in, static_cast<To*>(args.out), args.count, args.scale);
  };
  dispatch(team, args, cast_to, [=](std::size_t run) DDPBENCH_SIMD_BODY { encode_run(args, run); });
}

void decode(Team team, const DecodeArgs& args) {
  const auto cast_from = [&]<typename From>(From) {
    cast(team, static_cast<const From*>(args.in), args.out, args.count, 1);
  };
  dispatch(team, args, cast_from,
           [=](std::size_t run) DDPBENCH_SIMD_BODY { decode_run(args, run); });
}

void orthonormalize(const OrthonormalArgs& args) {
  for (std::size_t i = 0; i < args.kPasses * args.width; ++i) {
    const std::size_t column = i % args.width;
    for (std::size_t j = column; j < args.width; ++j) args.sum_products(column, j);
    for (std::size_t row = 0; row < args.rows; ++row) args.take_out(column, row);
  }
}

}  // namespace ddpbench::ops::cpu
