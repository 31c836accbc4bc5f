// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/collectives/reduce_kernels.h"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::comm {

WriteMode WriteTuner::begin_operation() noexcept {
  ++operation_;
  const std::uint64_t place = operation_ % kPeriod;
  const bool probes = place == kProbe || place == kProbe + 1;
  const WriteMode other =
      chosen_ == WriteMode::cached ? WriteMode::non_temporal : WriteMode::cached;
  current_ = probes ? other : chosen_;
  return current_;
}

void WriteTuner::record(std::size_t bytes, double seconds) noexcept {
  // What bypasses the cache is later read from memory, which is not in these times. So non-temporal
  // stores must be faster by this factor to be chosen.
  constexpr double kAdvantage = 1.25;
  const double now = seconds / static_cast<double>(bytes);
  double& known = current_ == WriteMode::cached ? cached_s_per_byte_ : non_temporal_s_per_byte_;
  known = known == 0 ? now : 0.5 * (known + now);
  if (cached_s_per_byte_ == 0 || non_temporal_s_per_byte_ == 0) return;
  chosen_ = kAdvantage * non_temporal_s_per_byte_ < cached_s_per_byte_ ? WriteMode::non_temporal
                                                                       : WriteMode::cached;
}

namespace {

// The target and one source of a block fit into an L1 cache of 32 KiB.
constexpr std::size_t kBlockBytes = 8 << 10;

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, _Float16>;

struct Sum {
  template <typename T>
  static inline T combine(T a, T b) {
    if constexpr (kIsHalf<T>) {
      return from_float<T>(static_cast<float>(a) + static_cast<float>(b));
    } else if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps, and is no undefined behaviour
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

struct Maximum {
  template <typename T>
  static inline T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a >= b ? a : b;
    } else {
      const bool is_nan = a != a;  // NOLINT: only NaN is not itself
      return static_cast<float>(a) >= static_cast<float>(b) || is_nan ? a : b;
    }
  }
  static inline double combine(double a, double b) { return a >= b || a != a ? a : b; }
};

// target may be a: each element depends on its own index only.
template <typename T, typename Op>
[[gnu::always_inline]] inline void combine_body(void* target, const void* a, const void* b,
                                                std::size_t count) {
  T* t = static_cast<T*>(target);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) t[i] = Op::combine(x[i], y[i]);
}

template <typename T>
[[gnu::always_inline]] inline void divide_body(void* target, std::size_t count, int divisor) {
  T* t = static_cast<T*>(target);
  if constexpr (std::is_integral_v<T>) {
    for (std::size_t i = 0; i < count; ++i) t[i] = static_cast<T>(std::int64_t{t[i]} / divisor);
  } else if constexpr (kIsHalf<T>) {
    const float d = static_cast<float>(divisor);
    for (std::size_t i = 0; i < count; ++i) t[i] = from_float<T>(static_cast<float>(t[i]) / d);
  } else if (std::has_single_bit(static_cast<unsigned>(divisor))) {
    const T reciprocal = T{1} / static_cast<T>(divisor);  // exact, and so is the product
    for (std::size_t i = 0; i < count; ++i) t[i] *= reciprocal;
  } else {
    for (std::size_t i = 0; i < count; ++i) t[i] /= static_cast<T>(divisor);
  }
}

template <typename T, typename Op>
void combine_plain(void* target, const void* a, const void* b, std::size_t count) {
  combine_body<T, Op>(target, a, b, count);
}
template <typename T>
void divide_plain(void* target, std::size_t count, int divisor) {
  divide_body<T>(target, count, divisor);
}

template <typename T, typename Op>
[[gnu::target("avx2,f16c")]] void combine_avx2(void* target, const void* a, const void* b,
                                               std::size_t count) {
  combine_body<T, Op>(target, a, b, count);
}
template <typename T, typename Op>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,f16c,prefer-vector-width=512")]] void
combine_avx512(void* target, const void* a, const void* b, std::size_t count) {
  combine_body<T, Op>(target, a, b, count);
}
template <typename T>
[[gnu::target("avx2,f16c")]] void divide_avx2(void* target, std::size_t count, int divisor) {
  divide_body<T>(target, count, divisor);
}

struct Kernels {
  void (*combine)(void* target, const void* a, const void* b, std::size_t count);
  void (*divide)(void* target, std::size_t count, int divisor);
};

enum class InstructionSet : std::uint8_t { plain, avx2, avx512 };

InstructionSet find_instruction_set() {
  // Clang's __builtin_cpu_supports does not know F16C.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool avx2 = f16c && __builtin_cpu_supports("avx2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return avx512 ? InstructionSet::avx512 : avx2 ? InstructionSet::avx2 : InstructionSet::plain;
}

template <typename T, typename Op>
Kernels kernels_for() {
  // Found once: on a virtual machine the hypervisor emulates CPUID, which takes longer than the
  // reduction of a small message.
  static const InstructionSet kFound = find_instruction_set();
  if (kFound == InstructionSet::avx512) return {combine_avx512<T, Op>, divide_avx2<T>};
  if (kFound == InstructionSet::avx2) return {combine_avx2<T, Op>, divide_avx2<T>};
  return {combine_plain<T, Op>, divide_plain<T>};
}

template <typename Op>
Kernels kernels_for(DataType type) {
  switch (type) {
    case DataType::fp32:
      return kernels_for<float, Op>();
    case DataType::fp64:
      return kernels_for<double, Op>();
    case DataType::bf16:
      return kernels_for<BFloat16, Op>();
    case DataType::fp16:
      return kernels_for<_Float16, Op>();
    case DataType::int32:
      return kernels_for<std::int32_t, Op>();
    case DataType::int64:
      return kernels_for<std::int64_t, Op>();
    case DataType::uint8:
      return kernels_for<std::uint8_t, Op>();
  }
  throw InternalError(fmt::format("no reduction for data type {}", static_cast<int>(type)));
}

// Reduces one block into `target`, which may be the first source.
void reduce_block(const Kernels& kernels, std::byte* target,
                  std::span<const std::byte* const> sources, std::size_t offset, std::size_t length,
                  const ReduceSpec& spec) {
  const std::byte* partial = sources[0] + offset;
  for (const std::byte* source : sources.subspan(1)) {
    kernels.combine(target, partial, source + offset, length);
    partial = target;
  }
  if (partial != target) std::memcpy(target, partial, length * size_of(spec.type));
  if (spec.op == ReduceOp::average && spec.divisor != 1) {
    kernels.divide(target, length, spec.divisor);
  }
}

// Writes whole cache lines past the cache, and the rest as usual.
void non_temporal_copy(std::byte* target, const std::byte* source, std::size_t bytes) {
  const std::size_t to_line = (64 - reinterpret_cast<std::uintptr_t>(target) % 64) % 64;
  const std::size_t head = std::min(to_line, bytes);
  std::memcpy(target, source, head);
  std::size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  std::memcpy(target + at, source + at, bytes - at);
  _mm_sfence();
}

}  // namespace

void reduce_sources(void* target, std::span<const std::byte* const> sources, std::size_t count,
                    const ReduceSpec& spec, WriteMode mode) {
  const Kernels kernels =
      spec.op == ReduceOp::maximum ? kernels_for<Maximum>(spec.type) : kernels_for<Sum>(spec.type);
  const std::size_t element = size_of(spec.type);
  const std::size_t block = kBlockBytes / element;
  alignas(64) std::array<std::byte, kBlockBytes> result;  // a block that goes past the cache
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t length = std::min(block, count - at);
    const std::size_t offset = at * element;
    std::byte* const part = static_cast<std::byte*>(target) + offset;
    if (mode == WriteMode::cached) {
      reduce_block(kernels, part, sources, offset, length, spec);
    } else {
      reduce_block(kernels, result.data(), sources, offset, length, spec);
      non_temporal_copy(part, result.data(), length * element);
    }
  }
}

void copy_bytes(void* target, const void* source, std::size_t bytes, WriteMode mode) {
  if (mode == WriteMode::cached) {
    if (bytes > 0) std::memcpy(target, source, bytes);
  } else {
    non_temporal_copy(static_cast<std::byte*>(target), static_cast<const std::byte*>(source),
                      bytes);
  }
}

}  // namespace ddpbench::comm
