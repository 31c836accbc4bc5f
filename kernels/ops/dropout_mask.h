// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the random numbers of an operation depend on, and which elements dropout drops by them: the
// same on every backend, whichever device or slice computes a sample.
//
// The elements of a sample, in plain order, have one random number each, of 32 bits. Groups of 64
// elements take the four words of 16 Philox counters: element e has word e % 64 / 16 of counter
// e / 64 * 16 + e % 16. So 16 elements side by side have the same word of 16 counters side by side,
// and neither vector registers nor a GPU's threads need to shuffle them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/random.h"

namespace ddpbench::ops {

// Where the samples of a graph's batch stand in the global batch, all samples of a training step.
// Its parts take turns in it: part p's sample j stands at p + j * parts. A batch has one part,
// `first`, or several that follow each other, of `part` samples each.
struct SamplePlaces {
  std::int64_t first = 0, parts = 1;
  std::int64_t part = std::numeric_limits<std::int64_t>::max();

  constexpr std::int64_t of(std::int64_t sample) const {
    return first + sample / part + sample % part * parts;
  }
};

// What the random numbers of a call depend on, beside the key of its operation. Backward gets the
// draw of its forward, and so draws the same numbers again.
struct RandomDraw {
  // In device memory, where also a recorded step finds the number of each step.
  const std::int64_t* step = nullptr;
  SamplePlaces places;            // of the graph's batch
  std::int64_t first_sample = 0;  // of the call, in the graph's batch
};

inline constexpr std::int64_t kMaskLanes = 16, kMaskWords = 4, kMaskGroup = kMaskLanes * kMaskWords;

struct DropoutMask {
  std::uint32_t key0 = 0, key1 = 0;
  std::uint32_t threshold = 0;  // smaller random numbers drop their element
  float scale = 1;              // the factor of the others

  DDPBENCH_HOST_DEVICE float factor(std::uint32_t random) const {
    return random < threshold ? 0.0F : scale;
  }
};

// REQUIRES: 0 <= p < 1.
inline DropoutMask dropout_mask(double p, std::uint64_t key) {
  const double drop = std::min(std::round(p * 0x1p32), 0x1p32 - 1);
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32),
          static_cast<std::uint32_t>(drop), static_cast<float>(1 / (1 - p))};
}

// The four words of a counter, which depend on the sample's place and the step, too.
struct MaskWords {
  std::uint32_t word[kMaskWords];
};
DDPBENCH_HOST_DEVICE inline MaskWords draw_words(const DropoutMask& mask, std::uint32_t counter,
                                                 std::uint32_t place, std::int64_t step) {
  const auto bits = static_cast<std::uint64_t>(step);
  MaskWords words = {
      {counter, place, static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)}};
  philox4x32(words.word, mask.key0, mask.key1);
  return words;
}

}  // namespace ddpbench::ops
