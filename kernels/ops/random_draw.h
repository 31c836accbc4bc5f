// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the random numbers of an operation depend on: the step and each sample's place in the global
// batch, not the device or the slice that computes it.
#pragma once

#include <cstdint>
#include <limits>

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

}  // namespace ddpbench::ops
