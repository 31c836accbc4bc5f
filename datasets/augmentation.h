// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Augmentation of training images as is common for CIFAR-10: a random crop of the image padded with
// black, and a horizontal flip of half of the images (He et al., "Deep residual learning for image
// recognition", 2015, section 4.2). It depends on the seed, the epoch and the sample only, so all
// strategies and world sizes see the same pixels.
#pragma once

#include <cstdint>

namespace ddpbench::data {

// Black pixels on each side of the image that a crop is taken from.
inline constexpr int kCropPadding = 4;

// How one image is changed: moved, then mirrored.
struct CropAndFlip {
  int down = 0, right = 0;  // pixel (y, x) of the crop is (y + down, x + right) of the image; each
                            // is -kCropPadding to kCropPadding
  bool flip = false;        // mirrored left to right
  bool operator==(const CropAndFlip&) const = default;
};

// Draws the change of the sample with this index in the training set.
CropAndFlip draw_crop_and_flip(std::uint64_t seed, std::int64_t epoch, std::int64_t sample);

}  // namespace ddpbench::data
