// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Resizing is separable: a row of the result is first mixed of rows of the image, which compilers
// vectorise, then of that row's columns.
#include "datasets/image_view.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace ddpbench::data {
namespace {

constexpr std::int64_t kChannels = 3;

// Part [offset, offset + size) of an axis of `source` pixels that is resized to `resized`.
ViewAxis crop_axis(std::int64_t source, std::int64_t resized, std::int64_t offset,
                   std::int64_t size) {
  const double scale = static_cast<double>(source) / static_cast<double>(resized);
  return {.origin = static_cast<double>(offset) * scale,
          .scale = scale,
          .high = source,
          .first = std::clamp<std::int64_t>(-offset, 0, size),
          .last = std::clamp<std::int64_t>(resized - offset, 0, size),
          .size = size};
}

// Pixels [low, low + length), resized to `size`.
ViewAxis box_axis(std::int64_t low, std::int64_t length, std::int64_t size) {
  ViewAxis axis = crop_axis(length, size, 0, size);
  axis.origin = static_cast<double>(low);
  axis.low = low;
  axis.high = low + length;
  return axis;
}

std::int64_t scaled(std::int64_t length, double factor) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(length) * factor));
}

ImageView centre_view(const StoredImage& image, double factor, std::int64_t height,
                      std::int64_t width) {
  const auto axis = [&](std::int64_t source, std::int64_t size) {
    const std::int64_t resized = scaled(source, factor);
    // Rounded down also where it is negative, so that odd padding is on the right.
    return crop_axis(source, resized, (resized - size) >> 1, size);
  };
  return {axis(image.height, height), axis(image.width, width)};
}

// Where the resized image is smaller, it is padded on the right and below.
ImageView draw_scaled_crop(const StoredImage& image, std::int64_t height, std::int64_t width,
                           SplitMix64& random) {
  const double factor = random.uniform(0.5, 2);
  const auto axis = [&](std::int64_t source, std::int64_t size) {
    const std::int64_t resized = scaled(source, factor);
    const std::int64_t room = std::max<std::int64_t>(0, resized - size);
    const auto offset = random.below(static_cast<std::uint32_t>(room + 1));
    return crop_axis(source, resized, static_cast<std::int64_t>(offset), size);
  };
  return {axis(image.height, height), axis(image.width, width)};
}

// torchvision's RandomResizedCrop.get_params, whose constants these are.
ImageView draw_box(const StoredImage& image, std::int64_t height, std::int64_t width,
                   SplitMix64& random) {
  constexpr int kTries = 10;
  constexpr double kLeastArea = 0.08, kMostRatio = 4.0 / 3;
  const double area = static_cast<double>(image.height) * image.width;
  std::int64_t h = 0, w = 0;
  for (int i = 0; i < kTries; ++i) {
    const double part = area * random.uniform(kLeastArea, 1);
    const double ratio = std::exp(std::log(kMostRatio) * random.uniform(-1, 1));
    h = std::llround(std::sqrt(part / ratio));
    w = std::llround(std::sqrt(part * ratio));
    if (h < 1 || w < 1 || h > image.height || w > image.width) continue;
    const auto top = random.below(static_cast<std::uint32_t>(image.height - h + 1));
    const auto left = random.below(static_cast<std::uint32_t>(image.width - w + 1));
    return {box_axis(top, h, height), box_axis(left, w, width)};
  }
  h = std::min<std::int64_t>(image.height, scaled(image.width, kMostRatio));
  w = std::min<std::int64_t>(image.width, scaled(image.height, kMostRatio));
  return {box_axis((image.height - h) / 2, h, height), box_axis((image.width - w) / 2, w, width)};
}

// Which pixels a pixel of the result is mixed of, and in what shares (precompute_coeffs in Pillow's
// Resample.c with its bilinear filter).
struct Mixture {
  std::int64_t first = 0;
  std::vector<float> shares = {};
};

std::vector<Mixture> mixtures(const ViewAxis& axis) {
  const double reach = std::max(1.0, axis.scale);
  std::vector<Mixture> all;
  for (std::int64_t i = axis.first; i < axis.last; ++i) {
    const double middle = axis.origin + (static_cast<double>(i) + 0.5) * axis.scale;
    const auto low = std::max(axis.low, static_cast<std::int64_t>(middle - reach + 0.5));
    const auto high = std::min(axis.high, static_cast<std::int64_t>(middle + reach + 0.5));
    Mixture mixture{low};
    double sum = 0;
    for (std::int64_t k = low; k < high; ++k) {
      const double share =
          std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - middle) / reach));
      mixture.shares.push_back(static_cast<float>(share));
      sum += share;
    }
    for (float& share : mixture.shares) share = static_cast<float>(share / sum);
    all.push_back(std::move(mixture));
  }
  return all;
}

// The nearest pixel of each pixel in [first, last).
std::vector<std::int64_t> nearest(const ViewAxis& axis) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = axis.first; i < axis.last; ++i) {
    const double middle = axis.origin + (static_cast<double>(i) + 0.5) * axis.scale;
    all.push_back(std::clamp(static_cast<std::int64_t>(middle), axis.low, axis.high - 1));
  }
  return all;
}

}  // namespace

ImageView resized_view(std::int64_t height, std::int64_t width, std::int64_t to_height,
                       std::int64_t to_width) {
  return {box_axis(0, height, to_height), box_axis(0, width, to_width)};
}

std::int64_t short_side_for(std::int64_t height, std::int64_t width) {
  return std::max<std::int64_t>(1, std::max(height, width) * 256 / 224);
}

ImageView view_of_sample(const Split& split, std::int64_t index,
                         const BatchAugmentation* augmentation) {
  const StoredImage& image = split.stored[static_cast<std::size_t>(index)];
  const std::int64_t width = split.width;
  const std::int64_t height =
      static_cast<std::int64_t>(split.sample_bytes) / (split.channels * width);
  if (augmentation == nullptr) {
    const double shorter = std::min(image.height, image.width);
    const auto wanted = static_cast<double>(short_side_for(height, width));
    return centre_view(image, split.has_maps ? 1 : wanted / shorter, height, width);
  }
  SplitMix64 random(
      combine_hash(augmentation->seed, static_cast<std::uint64_t>(augmentation->epoch)),
      static_cast<std::uint64_t>(index));
  ImageView view = split.has_maps ? draw_scaled_crop(image, height, width, random)
                                  : draw_box(image, height, width, random);
  view.flip = random.below(2) == 1;
  return view;
}

void resample(const std::uint8_t* pixels, std::int64_t width, const ImageView& view,
              const std::function<void(std::int64_t y, std::span<const float> row)>& row) {
  const std::vector<Mixture> rows = mixtures(view.y), columns = mixtures(view.x);
  if (rows.empty() || columns.empty()) return;
  const std::int64_t left = columns.front().first;
  const std::int64_t right =
      columns.back().first + static_cast<std::int64_t>(columns.back().shares.size());
  std::vector<float> mixed(static_cast<std::size_t>((right - left) * kChannels));
  std::vector<float> out(columns.size() * kChannels);
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const std::uint8_t* bytes = pixels + (rows[y].first * width + left) * kChannels;
    std::ranges::fill(mixed, 0.0F);
    for (const float share : rows[y].shares) {
      for (std::size_t i = 0; i < mixed.size(); ++i) {
        mixed[i] += share * static_cast<float>(bytes[i]);
      }
      bytes += width * kChannels;
    }
    float* pixel = out.data();
    for (const Mixture& column : columns) {
      const float* from = mixed.data() + (column.first - left) * kChannels;
      float red = 0, green = 0, blue = 0;
      for (const float share : column.shares) {
        red += share * from[0];
        green += share * from[1];
        blue += share * from[2];
        from += kChannels;
      }
      *pixel++ = red;
      *pixel++ = green;
      *pixel++ = blue;
    }
    row(view.y.first + static_cast<std::int64_t>(y), out);
  }
}

std::int64_t view_labels(const Split& split, std::int64_t index, const ImageView& view,
                         std::int32_t* labels) {
  const std::uint8_t* const map = split.map_of(index);
  const std::vector<std::int64_t> rows = nearest(view.y), columns = nearest(view.x);
  if (labels != nullptr) std::fill_n(labels, view.y.size * view.x.size, kVoidLabel);
  const std::int64_t step = view.flip ? -1 : 1;
  const std::int64_t first = view.flip ? view.x.size - 1 - view.x.first : view.x.first;
  std::int64_t count = 0;
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const std::uint8_t* const from =
        map + rows[y] * split.stored[static_cast<std::size_t>(index)].width;
    for (const std::int64_t x : columns) count += from[x] != kVoidLabel ? 1 : 0;
    if (labels == nullptr) continue;
    std::int32_t* out =
        labels + (view.y.first + static_cast<std::int64_t>(y)) * view.x.size + first;
    for (const std::int64_t x : columns) {
      *out = from[x];
      out += step;
    }
  }
  return count;
}

}  // namespace ddpbench::data
