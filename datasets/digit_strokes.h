// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The ten digits as pen strokes, in a few ways of writing each.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace ddpbench::data {

struct Point {
  double x = 0, y = 0;
};

// A line that the pen draws without being lifted.
using Polyline = std::vector<Point>;

// The strokes of `digit` in a box of height 2 around (0, 0), x to the right, y downwards. Which way
// of writing it, and its proportions, come from `random`.
std::vector<Polyline> digit_strokes(int digit, SplitMix64& random);

}  // namespace ddpbench::data
