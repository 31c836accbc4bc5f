// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Synthetic samples, so that no files are needed, drawn by as many threads as the cores that the
// calling thread may run on.
//
// Images of any shape and number of classes: each class has waves of its own over rows and columns
// of each channel; a sample moves them a little, by chance, and adds noise. With a label for each
// place of a map, a sample has two classes: one in a rectangle anywhere, the other around it. The
// rectangle's edge has the ignored label, if there is one, as outlines do in PASCAL VOC. Digits
// stand in for MNIST, of similar mean and spread: a font's, each in its own place, size, slant,
// stroke width and noise.
//
// Cost: images about 1 GB/s, maps half of it, a digit about 1.5 us of a core. Sample i depends on
// (seed, i), shape and number of classes only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "datasets/dataset.h"

namespace ddpbench::data {

// About the mean and the deviation of all pixels / 255.
inline constexpr double kSyntheticMean = 0.5, kSyntheticDeviation = 0.16;

// CatalogEntry::synthesize. If the request gives no counts, there are as many training images as
// fit into 256 MiB and whose labels fit into another 256 MiB, but at least 256 and at most 60000.
// There are a sixth as many test images, of maps fewer. info().source is "synthetic". Throws
// ConfigError for too many classes.
std::unique_ptr<DatasetSource> make_synthetic_images(const SyntheticRequest& request);
// The same for MNIST, with its shape, classes and counts.
std::unique_ptr<DatasetSource> make_synthetic_digits(const SyntheticRequest& request);

// Draws sample `index` of the infinite sequence that the request stands for, and returns its label.
// `image` has channels * height * width bytes.
std::uint16_t draw_image(const SyntheticRequest& request, std::uint64_t index,
                         std::span<std::uint8_t> image);
// The same with a map of label_height * label_width labels.
void draw_map(const SyntheticRequest& request, std::uint64_t index, std::span<std::uint8_t> image,
              std::span<std::uint16_t> labels);

constexpr std::int64_t kDigitSide = 28;
constexpr std::size_t kDigitPixels = kDigitSide * kDigitSide;
// Draws digit `index` of the infinite sequence that `seed` stands for; returns its label, 0 to 9.
std::uint8_t draw_digit(std::uint64_t seed, std::uint64_t index,
                        std::span<std::uint8_t, kDigitPixels> image);

}  // namespace ddpbench::data
