// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which part of a stored image a sample shows, and its pixels and labels. Image and map are cut,
// resized and mirrored alike. What is drawn depends on seed, epoch and sample only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "datasets/dataset.h"

namespace ddpbench::data {

// How `size` pixels of an axis are taken from a stored image. Pixel i, of those in [first, last),
// has its middle at origin + (i + 0.5) * scale and sees the pixels of [low, high); the others are
// padding.
struct ViewAxis {
  double origin = 0, scale = 1;
  std::int64_t low = 0, high = 0, first = 0, last = 0, size = 0;
};
struct ImageView {
  ViewAxis y, x;
  bool flip = false;  // mirrored left to right
};

// The whole of `height` x `width` pixels, resized.
ImageView resized_view(std::int64_t height, std::int64_t width, std::int64_t to_height,
                       std::int64_t to_width);

// The length of the shorter side that images of a folder are resized to, where a network takes
// height x width: 256 for 224, as in torchvision's evaluation.
std::int64_t short_side_for(std::int64_t height, std::int64_t width);

// What sample `index` of a split with stored images shows, with or without augmentation.
// With maps of labels: the centre of the image at its own size; augmented, the image resized by 0.5
// to 2, a part of it at random, mirrored or not (Chen et al. 2017, "Rethinking atrous convolution",
// section 4.1; torchvision's references/segmentation). What lies outside is padding.
// With one label an image: its shorter side is resized to short_side_for, and the centre taken;
// augmented as torchvision's RandomResizedCrop and RandomHorizontalFlip do with their defaults.
ImageView view_of_sample(const Split& split, std::int64_t index,
                         const BatchAugmentation* augmentation);

// Calls `row` with y and the pixels [first, last) of each row that is no padding: red, green and
// blue of 0 to 255, not mirrored. Bilinear; where it shrinks, the triangle is as wide as what a
// pixel stands for, as Pillow and torchvision's antialias do. `pixels`: [height, width, 3] bytes.
void resample(const std::uint8_t* pixels, std::int64_t width, const ImageView& view,
              const std::function<void(std::int64_t y, std::span<const float> row)>& row);

// Writes the labels of the view, [y.size, x.size], unless `labels` is null: the nearest of the map,
// and kVoidLabel in the padding. Returns how many are not kVoidLabel; about 1 ns a label.
std::int64_t view_labels(const Split& split, std::int64_t index, const ImageView& view,
                         std::int32_t* labels);

}  // namespace ddpbench::data
