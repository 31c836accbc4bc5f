// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A digit is drawn in two passes. First every piece of a stroke lowers the squared distance to the
// pen's path in the pixels around it. Then the grey of a pixel follows from its distance.
//
// Pixels are worked on in groups of neighbours, which the processor takes in one instruction: four
// on any x86-64, eight with AVX2. No sum is fused with a product, so that both give the same bits.
#include "datasets/digit_pen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace ddpbench::data {
namespace {

constexpr float kFar = 1e6F;
constexpr std::size_t kNoisesADraw = 4;

// Squared distance in pixels from each pixel's centre to the pen's path; exact only near the path.
using DistanceField = std::array<float, kDigitPixels>;

// The pixels from `low - reach` to `high + reach`, as a half-open range within the image.
struct Range {
  int first = 0, last = 0;
};
Range pixels_around(double low, double high, double reach) {
  const auto side = static_cast<int>(kDigitSide);
  return {std::max(0, static_cast<int>(std::ceil(low - reach))),
          std::min(side, static_cast<int>(std::floor(high + reach)) + 1)};
}

// GCC drops the attribute of an alias of such a size, and keeps that of a typedef.
template <typename T, int kCount>
struct Group {
  typedef T Type [[gnu::vector_size(sizeof(T) * kCount)]];  // NOLINT(modernize-use-using)
};

// All of it is inlined into functions that are compiled for the group's instructions.
template <int kCount>
struct Pen {
  using Floats = typename Group<float, kCount>::Type;
  using Ints = typename Group<std::int32_t, kCount>::Type;
  using Pairs = typename Group<std::uint16_t, kCount>::Type;
  static_assert(kDigitPixels % kCount == 0 && kCount % kNoisesADraw == 0);

  [[gnu::always_inline]] static inline Floats loaded(const float* from) {
    Floats group;
    std::memcpy(&group, from, sizeof(group));
    return group;
  }

  [[gnu::always_inline]] static inline Floats clamped(Floats value, float low, float high) {
    value = value < low ? Floats{} + low : value;
    return value > high ? Floats{} + high : value;
  }

  // 0, 1, 2, ...
  [[gnu::always_inline]] static inline Floats counted() {
    Floats group;
    for (int i = 0; i < kCount; ++i) group[i] = static_cast<float>(i);
    return group;
  }

  // Lowers `field` to the distance from the piece a-b, in the pixels within `reach` of its box and
  // in those that share a group with them.
  [[gnu::always_inline]] static inline void add_piece(DistanceField& field, Point a, Point b,
                                                      double reach) {
    constexpr int kLastGroup = kDigitSide - kCount;
    const Range rows = pixels_around(std::min(a.y, b.y), std::max(a.y, b.y), reach);
    const Range columns = pixels_around(std::min(a.x, b.x), std::max(a.x, b.x), reach);
    const auto from_x = static_cast<float>(a.x), from_y = static_cast<float>(a.y);
    const auto along_x = static_cast<float>(b.x - a.x), along_y = static_cast<float>(b.y - a.y);
    const float length2 = std::max(along_x * along_x + along_y * along_y, 1e-6F);
    for (int column = columns.first; column < columns.last; column += kCount) {
      const int group = std::min(column, kLastGroup);
      const Floats x = static_cast<float>(group) + counted() - from_x;
      for (int row = rows.first; row < rows.last; ++row) {
        const float y = static_cast<float>(row) - from_y;
        // Nearest point of the piece, as a share of its length from a.
        const Floats share = clamped((x * along_x + y * along_y) / length2, 0, 1);
        const Floats dx = x - share * along_x, dy = y - share * along_y;
        const Floats distance2 = dx * dx + dy * dy;
        float* const at = &field[static_cast<std::size_t>(row * kDigitSide + group)];
        const Floats before = loaded(at);
        const Floats lower = distance2 < before ? distance2 : before;
        std::memcpy(at, &lower, sizeof(lower));
      }
    }
  }

  // Triangular around zero, from -255 to 255: the difference of the two bytes that a pixel has.
  [[gnu::always_inline]] static inline Floats noise_of(const std::uint64_t* bits) {
    Pairs pairs;
    std::memcpy(&pairs, bits, sizeof(pairs));
    const Ints wide = __builtin_convertvector(pairs, Ints);
    return __builtin_convertvector((wide & 0xff) - (wide >> 8), Floats);
  }

  // Ink falls from full to none over the pixel that the pen's edge crosses. The sum with the noise
  // is clamped to black and white.
  [[gnu::always_inline]] static inline void develop(const DistanceField& field, float radius,
                                                    SplitMix64& random,
                                                    std::span<std::uint8_t, kDigitPixels> image) {
    const auto ink = static_cast<float>(random.uniform(225, 330));
    const auto noise = static_cast<float>(random.uniform(0.02, 0.12));
    const float edge = radius + 0.5F;
    // All noise is drawn first: that is a chain of its own, which the groups need not wait for.
    std::array<std::uint64_t, kDigitPixels / kNoisesADraw> bits;
    for (std::uint64_t& drawn : bits) drawn = random.next();
    std::array<std::int32_t, kDigitPixels> greys;
    for (std::size_t i = 0; i < kDigitPixels; i += kCount) {
      const Floats distance2 = loaded(&field[i]);
      Floats distance;
      for (int lane = 0; lane < kCount; ++lane) distance[lane] = std::sqrt(distance2[lane]);
      const Floats grey =
          noise * noise_of(&bits[i / kNoisesADraw]) + clamped(edge - distance, 0, 1) * ink;
      const Ints whole = __builtin_convertvector(clamped(grey, 0, 255), Ints);
      std::memcpy(&greys[i], &whole, sizeof(whole));
    }
    // A loop of its own, which the compiler turns into instructions that pack.
    for (std::size_t i = 0; i < kDigitPixels; ++i) image[i] = static_cast<std::uint8_t>(greys[i]);
  }

  [[gnu::always_inline]] static inline void draw(std::span<const Polyline> strokes, double radius,
                                                 SplitMix64& random,
                                                 std::span<std::uint8_t, kDigitPixels> image) {
    DistanceField field;
    field.fill(kFar);
    for (const Polyline& stroke : strokes) {
      for (std::size_t i = 1; i < stroke.size(); ++i) {
        add_piece(field, stroke[i - 1], stroke[i], radius + 0.5);
      }
    }
    develop(field, static_cast<float>(radius), random, image);
  }
};

void draw_by_four(std::span<const Polyline> strokes, double radius, SplitMix64& random,
                  std::span<std::uint8_t, kDigitPixels> image) {
  Pen<4>::draw(strokes, radius, random, image);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void draw_by_eight(std::span<const Polyline> strokes, double radius,
                                           SplitMix64& random,
                                           std::span<std::uint8_t, kDigitPixels> image) {
  Pen<8>::draw(strokes, radius, random, image);
}
#endif

}  // namespace

bool has_eight_lanes() {
#if defined(__x86_64__)
  // Found once: on a virtual machine the hypervisor emulates CPUID.
  static const bool kFound = __builtin_cpu_supports("avx2") != 0;
  return kFound;
#else
  return false;
#endif
}

void draw_strokes(std::span<const Polyline> strokes, double radius, SplitMix64& random,
                  std::span<std::uint8_t, kDigitPixels> image, [[maybe_unused]] bool eight_lanes) {
#if defined(__x86_64__)
  if (eight_lanes) {
    draw_by_eight(strokes, radius, random, image);
    return;
  }
#endif
  draw_by_four(strokes, radius, random, image);
}

}  // namespace ddpbench::data
