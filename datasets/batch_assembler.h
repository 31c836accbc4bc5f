// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Turns bytes of single samples into normalised batches. Immutable, so many threads may share one.
//
// Cost: reads 1 byte and writes 4 bytes a pixel; 64 x 784 take about 10 us, mostly cache misses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "datasets/dataset.h"

namespace ddpbench::data {

// (byte / 255 - mean) / std, in fp32. Each has one value for all channels, or one a channel.
struct Normalization {
  std::vector<double> mean = {0}, std = {1};
};

// One value a channel: `values`, or its only one repeated. REQUIRES: there are one or `channels`.
std::vector<double> for_each_channel(const std::vector<double>& values, std::int64_t channels);

// Augmentation of training images as is common for CIFAR-10: a random crop of the image padded with
// black, and a horizontal flip of half of the images (He et al. 2015, section 4.2). It depends on
// seed, epoch and sample only, so all strategies and world sizes see the same pixels.

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

// Host memory for one batch. The caller owns it, and it outlives the Loader.
struct BatchBuffer {
  float* images = nullptr;         // [batch, channels, height, width]
  std::int32_t* labels = nullptr;  // [batch, labels_per_sample]
  // Set if the loss ignores a label: the number of labels in the global batch divided by the number
  // of those that count (LabelCounts).
  float* valid_weight = nullptr;
};

class BatchAssembler {
 public:
  // `split` must outlive it. REQUIRES: positive deviations.
  BatchAssembler(const Split& split, const Normalization& normalization);

  // Writes the samples with these indices one after the other. With `augmentation` every image is
  // cropped and flipped; the split's images must have a width then. Stored images are cut as
  // view_of_sample says, and padded with the mean.
  void gather(std::span<const std::int64_t> indices, float* images, std::int32_t* labels,
              const BatchAugmentation* augmentation = nullptr) const;

 private:
  // A byte becomes byte * factor + offset.
  struct Scale {
    float factor = 1, offset = 0;
  };

  void convert(std::int64_t index, const CropAndFlip& change, float* image) const;
  void cut(std::int64_t index, const BatchAugmentation* augmentation, float* image,
           std::int32_t* labels) const;

  Split split_;
  std::vector<Scale> scales_;  // [channel]
};

// Assembles samples [first, first + count) of `split` in order, for evaluation.
void assemble_range(const Split& split, const Normalization& normalization, std::int64_t first,
                    std::int64_t count, const BatchBuffer& out);

}  // namespace ddpbench::data
