// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/augmentation.h"

#include "base/hash.h"
#include "base/random.h"

namespace ddpbench::data {

CropAndFlip draw_crop_and_flip(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  // The sampler's permutation is drawn from (seed, epoch); this is another stream.
  SplitMix64 random(combine_hash(seed, static_cast<std::uint64_t>(epoch)),
                    static_cast<std::uint64_t>(sample));
  const auto offset = [&random] {
    return static_cast<int>(random.below(2 * kCropPadding + 1)) - kCropPadding;
  };
  CropAndFlip drawn;
  drawn.down = offset();
  drawn.right = offset();
  drawn.flip = random.below(2) == 1;
  return drawn;
}

}  // namespace ddpbench::data
