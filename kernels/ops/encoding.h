// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Encodings of a flat buffer of fp32 for a transfer (parallel/comm_hook.h), by code that hosts and
// GPUs share.
//
// bf16, fp16: each element rounded to the type.
// int8: of 256 elements in turn the largest magnitude is 127 units. All units, then all bytes.
// largest: of 4,096 elements in turn the `kept` of largest magnitude, of equal ones the first; of a
// shorter last run as large a share. All values, then their places (16 bits) in the runs.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/math.h"

// Inlined, so that a CPU's loops are made for the instructions of their caller (cpu/simd.h).
#define DDPBENCH_RUN DDPBENCH_HOST_DEVICE __attribute__((always_inline)) inline

namespace ddpbench::ops {

struct Encoding {
  enum class Kind : std::uint8_t { bf16, fp16, int8, largest };
  Kind kind = Kind::bf16;
  std::size_t kept = 1;  // of a run: the unit of int8, or the values of `largest`

  bool is_cast() const { return kind == Kind::bf16 || kind == Kind::fp16; }
  DDPBENCH_RUN bool is_bytes() const { return kind == Kind::int8; }
  // But for casts: the elements that are encoded together, by one thread of a GPU.
  DDPBENCH_RUN std::size_t run() const { return is_bytes() ? 256 : 4096; }
  // What is kept of `count` elements.
  DDPBENCH_RUN std::size_t kept_of(std::size_t count) const {
    return (count * kept + run() - 1) / run();
  }
  std::size_t bytes(std::size_t count) const {
    if (is_cast()) return 2 * count;
    return kept_of(count) * sizeof(float) + (is_bytes() ? count : 2 * kept_of(count));
  }
};

// out = encoded scale * in. All pointers are to device memory.
struct EncodeArgs {
  Encoding encoding;
  const float* in = nullptr;
  std::size_t count = 0;
  float scale = 1;
  // But for casts: what was lost before is added, and what is lost now replaces it.
  float* error = nullptr;
  void* out = nullptr;
};

// out = the sum of `parts` encodings, `stride` bytes apart, in their order. Of a cast there is one.
struct DecodeArgs {
  Encoding encoding;
  const void* in = nullptr;
  std::size_t parts = 1, stride = 0;
  float* out = nullptr;
  std::size_t count = 0;
};

// Makes the columns of matrix [rows, width] orthonormal, by modified Gram-Schmidt. One of zeros, as
// of a gradient that is zero, becomes another one. All pointers are to device memory.
struct OrthonormalArgs {
  float* matrix = nullptr;
  std::size_t rows = 0, width = 0;
  double* sums = nullptr;  // room for `width`

  // The first pass leaves but rounding of a column that depends on others; the second sorts it out.
  static constexpr int kPasses = 2;
  // In a pass, for each column: this for each `other` from it on, then take_out() for each row.
  DDPBENCH_RUN void sum_products(std::size_t column, std::size_t other) const {
    double sum = 0;
    for (std::size_t i = 0; i < rows * width; i += width)
      sum += static_cast<double>(matrix[i + column]) * static_cast<double>(matrix[i + other]);
    sums[other] = sum;
  }
  // Gives the column length 1, and takes its direction out of those to its right.
  DDPBENCH_RUN void take_out(std::size_t column, std::size_t row) const {
    float* const values = matrix + row * width;
    const bool is_zero = sums[column] == 0;
    const double inverse = is_zero ? 0 : 1 / sqrt(sums[column]);
    const auto unit = static_cast<float>(values[column] * inverse);
    for (std::size_t j = column + 1; j < width; ++j)
      values[j] -= unit * static_cast<float>(sums[j] * inverse);
    values[column] = is_zero && row == column ? 1 : unit;
  }
};

// Orders as magnitudes do, with NaN above all.
DDPBENCH_RUN std::int32_t magnitude(float value) {
  std::int32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffff;
}

// Takes bytes out of `error`. Returns their unit.
DDPBENCH_RUN float take_bytes(float* __restrict__ error, std::size_t count,
                              std::int8_t* __restrict__ bytes) {
  constexpr float kMost = 127, kRound = 0x1.8p23F;  // adding kRound rounds to a whole number
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = magnitude(error[i]) > largest ? magnitude(error[i]) : largest;
  }
  float unit;
  memcpy(&unit, &largest, sizeof(unit));
  unit /= kMost;
  const float inverse = unit >= FLT_MIN ? 1 / unit : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float units = error[i] * inverse;
    // A NaN becomes -127, and NaN again by the unit.
    const float bounded = units > kMost ? kMost : units >= -kMost ? units : -kMost;
    const float whole = (bounded + kRound) - kRound;
    bytes[i] = static_cast<std::int8_t>(whole);
    error[i] -= whole * unit;
  }
  return unit;
}

DDPBENCH_RUN std::size_t count_above(const float* values, std::size_t count, std::int32_t size) {
  std::int32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) found += magnitude(values[i]) > size ? 1 : 0;
  return static_cast<std::size_t>(found);
}

// Takes the `kept` <= count values of largest magnitude out of `error`.
DDPBENCH_RUN void take_largest(float* error, std::size_t count, std::size_t kept, float* values,
                               std::uint16_t* places) {
  std::int32_t least = 0;  // the smallest magnitude that is kept, found bit by bit
  for (std::int32_t bit = 1 << 30; bit > 0; bit >>= 1) {
    const std::size_t found = count_above(error, count, (least | bit) - 1);
    if (found >= kept) least |= bit;
    if (found == kept) break;
  }
  std::size_t equal = kept - count_above(error, count, least), taken = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t size = magnitude(error[i]);
    if (size < least || (size == least && equal == 0)) continue;
    if (size == least) --equal;
    values[taken] = error[i];
    places[taken++] = static_cast<std::uint16_t>(i);
    error[i] = 0;
  }
}

// Both REQUIRE that the encoding is no cast.
DDPBENCH_RUN void encode_run(const EncodeArgs& args, std::size_t run) {
  const Encoding& e = args.encoding;
  const std::size_t first = run * e.run(), place = run * e.kept, left = args.count - first;
  const std::size_t length = left < e.run() ? left : e.run();
  const float* __restrict__ in = args.in + first;
  float* __restrict__ error = args.error + first;
  for (std::size_t i = 0; i < length; ++i) error[i] += args.scale * in[i];
  float* const kept = static_cast<float*>(args.out);
  float* const rest = kept + e.kept_of(args.count);
  if (e.is_bytes()) {
    kept[place] = take_bytes(error, length, reinterpret_cast<std::int8_t*>(rest) + first);
  } else {
    take_largest(error, length, e.kept_of(length), kept + place,
                 reinterpret_cast<std::uint16_t*>(rest) + place);
  }
}

DDPBENCH_RUN void decode_run(const DecodeArgs& args, std::size_t run) {
  const Encoding& e = args.encoding;
  const std::size_t first = run * e.run(), place = run * e.kept, left = args.count - first;
  const std::size_t length = left < e.run() ? left : e.run();
  float* __restrict__ out = args.out + first;
  for (std::size_t i = 0; i < length; ++i) out[i] = 0;
  for (std::size_t part = 0; part < args.parts; ++part) {
    const void* const in = static_cast<const char*>(args.in) + part * args.stride;
    const float* const kept = static_cast<const float*>(in);
    const float* const rest = kept + e.kept_of(args.count);
    if (e.is_bytes()) {
      const auto* __restrict__ bytes = reinterpret_cast<const std::int8_t*>(rest) + first;
      for (std::size_t i = 0; i < length; ++i) out[i] += kept[place] * static_cast<float>(bytes[i]);
    } else {
      const auto* const places = reinterpret_cast<const std::uint16_t*>(rest) + place;
      const std::size_t values = e.kept_of(length);
      for (std::size_t i = 0; i < values; ++i) out[places[i]] += kept[place + i];
    }
  }
}

}  // namespace ddpbench::ops
