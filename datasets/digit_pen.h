// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The pen that draws synthetic digits, from strokes in pixels to grey bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace ddpbench::data {

constexpr std::int64_t kDigitSide = 28;
constexpr std::size_t kDigitPixels = kDigitSide * kDigitSide;

struct Point {
  double x = 0, y = 0;
};

// A line that the pen draws without being lifted.
using Polyline = std::vector<Point>;

// Whether the processor takes eight pixels at once (AVX2).
bool has_eight_lanes();

// Draws `strokes`, in pixels to the right and downwards of the first pixel's centre, with a round
// pen of `radius` pixels, ink and noise by `random`. The bits are the same with `eight_lanes` and
// without. REQUIRES: `eight_lanes` only where has_eight_lanes().
void draw_strokes(std::span<const Polyline> strokes, double radius, SplitMix64& random,
                  std::span<std::uint8_t, kDigitPixels> image,
                  bool eight_lanes = has_eight_lanes());

}  // namespace ddpbench::data
