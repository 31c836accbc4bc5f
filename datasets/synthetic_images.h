// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Synthetic images of any shape and number of classes. Each class has waves of its own over rows
// and columns of each channel; a sample moves them a little, by chance, and adds noise. So networks
// learn them, and no files are needed.
//
// With a label for each place of a map, a sample has two classes: one in a rectangle anywhere, the
// other around it. The places at the rectangle's edge have the ignored label, if there is one, as
// outlines do in PASCAL VOC.
//
// Cost: about 1 GB/s, for maps half of it. Sample i depends on (seed, i), shape and number of
// classes only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "datasets/catalog_entry.h"
#include "datasets/dataset.h"

namespace ddpbench::data {

// About the mean and the deviation of all pixels / 255.
inline constexpr double kSyntheticMean = 0.5, kSyntheticDeviation = 0.16;

// CatalogEntry::synthesize. If the request gives no counts, there are as many training images as
// fit into 256 MiB and whose labels fit into another 256 MiB, but at least 256 and at most 60000.
// There are a sixth as many test images. info().source is "synthetic". Throws ConfigError for
// shapes and numbers of classes that are out of range.
std::unique_ptr<DatasetSource> make_synthetic_images(const SyntheticRequest& request);

// Draws sample `index` of the infinite sequence that the request stands for, and returns its label.
// `image` has channels * height * width bytes.
std::uint16_t draw_image(const SyntheticRequest& request, std::uint64_t index,
                         std::span<std::uint8_t> image);
// The same with a map of label_height * label_width labels.
void draw_map(const SyntheticRequest& request, std::uint64_t index, std::span<std::uint8_t> image,
              std::span<std::uint16_t> labels);

}  // namespace ddpbench::data
