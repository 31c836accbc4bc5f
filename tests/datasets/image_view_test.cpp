// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/image_view.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "datasets/loader.h"
#include "datasets/sharded_sampler.h"

namespace ddpbench::data {
namespace {

using testing::ElementsAre;

// 6 x 8 pixels; expected values below are Pillow 9.4's of this image.
constexpr std::int64_t kPillowHeight = 6, kPillowWidth = 8;
std::vector<std::uint8_t> pillow_image() {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < kPillowHeight; ++y) {
    for (int x = 0; x < kPillowWidth; ++x) {
      for (int c = 0; c < 3; ++c) {
        pixels.push_back(static_cast<std::uint8_t>(y * 31 + x * 17 + c * 50 + x * y * 3));
      }
    }
  }
  return pixels;
}

std::vector<int> row_of(const ImageView& view, std::int64_t wanted) {
  std::vector<int> values;
  const std::vector<std::uint8_t> pixels = pillow_image();
  resample(pixels.data(), kPillowWidth, view, [&](std::int64_t y, std::span<const float> row) {
    if (y == wanted) {
      for (const float value : row) values.push_back(static_cast<int>(std::lround(value)));
    }
  });
  return values;
}

// Pillow rounds between rows and columns.
void expect_near(const std::vector<int>& found, const std::vector<int>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1) << i;
}

TEST(Resample, ShrinksAsPillowDoes) {
  expect_near(row_of(resized_view(kPillowHeight, kPillowWidth, 4, 3), 1),
              {80, 130, 177, 134, 178, 183, 179, 169, 103});
}

TEST(Resample, GrowsAsPillowDoes) {
  expect_near(row_of(resized_view(kPillowHeight, kPillowWidth, 7, 11), 2),
              {51,  101, 151, 64,  114, 164, 79,  129, 179, 96,  146, 196, 112, 162, 212, 128, 178,
               228, 144, 194, 206, 160, 210, 103, 176, 226, 111, 191, 174, 89,  204, 90,  48});
}

// im.crop((2, 1, 7, 5)).resize((4, 3)): what lies outside of the part has no share.
TEST(Resample, CutsAPartAsPillowDoes) {
  ImageView view{{.origin = 1, .scale = 4.0 / 3, .low = 1, .high = 5, .last = 3, .size = 3},
                 {.origin = 2, .scale = 5.0 / 4, .low = 2, .high = 7, .last = 4, .size = 4}};
  expect_near(row_of(view, 2), {178, 183, 79, 211, 81, 55, 139, 70, 88, 97, 71, 121});
}

// Stored images whose red is ten times the label of their map.
class Stored {
 public:
  Stored(std::initializer_list<std::pair<int, int>> sizes, std::int64_t side, bool maps)
      : side_(side), maps_(maps), labels_(sizes.size(), 3) {
    for (const auto& [height, width] : sizes) {
      stored_.push_back(
          {bytes_.size(), static_cast<std::uint32_t>(height), static_cast<std::uint32_t>(width)});
      const auto label = [&](int i) { return i % width / 8 + i / width / 8 * 2 + 1; };
      for (int i = 0; i < height * width; ++i) {
        bytes_.insert(bytes_.end(), {static_cast<std::uint8_t>(label(i) * 10), 60, 0});
      }
      for (int i = 0; maps && i < height * width; ++i) {
        bytes_.push_back(static_cast<std::uint8_t>(label(i) == 2 ? kVoidLabel : label(i)));
      }
    }
  }
  Split split() const {
    return {.images = bytes_,
            .labels = maps_ ? std::span<const std::uint16_t>() : labels_,
            .count = std::ssize(stored_),
            .sample_bytes = static_cast<std::size_t>(3 * side_ * side_),
            .channels = 3,
            .width = side_,
            .labels_per_sample = maps_ ? static_cast<std::size_t>(side_ * side_) : 1,
            .stored = stored_,
            .has_maps = maps_};
  }

 private:
  std::int64_t side_;
  bool maps_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint16_t> labels_;
  std::vector<StoredImage> stored_;
};

struct Sample {
  std::vector<float> image;
  std::vector<std::int32_t> labels;
};

Sample assemble(const Split& split, std::int64_t index, const BatchAugmentation* augmentation) {
  Sample sample{std::vector<float>(split.sample_bytes),
                std::vector<std::int32_t>(split.labels_per_sample)};
  BatchAssembler(split, {.mean = {0.5}, .std = {0.1}})
      .gather(std::array{index}, sample.image.data(), sample.labels.data(), augmentation);
  return sample;
}

float byte_of(float value) { return (value * 0.1F + 0.5F) * 255; }

TEST(ImageView, EvaluatesTheCentreOfAMapAndPadsAround) {
  const Stored data({{16, 40}}, 32, true);
  const Split split = data.split();
  const Sample sample = assemble(split, 0, nullptr);
  for (std::int64_t y = 0; y < 32; ++y) {
    for (std::int64_t x = 0; x < 32; ++x) {
      const auto at = static_cast<std::size_t>(y * 32 + x);
      const std::int64_t from_y = y - 8, from_x = x + 4;
      if (from_y < 0 || from_y >= 16) {
        EXPECT_EQ(sample.labels[at], kVoidLabel);
        EXPECT_EQ(sample.image[at], 0);  // the mean
        continue;
      }
      const std::int64_t label = from_x / 8 + from_y / 8 * 2 + 1;
      EXPECT_EQ(sample.labels[at], label == 2 ? kVoidLabel : label);
      EXPECT_NEAR(byte_of(sample.image[at]), static_cast<float>(label * 10), 1e-3);
      EXPECT_NEAR(byte_of(sample.image[1024 + at]), 60, 1e-3);
    }
  }
}

TEST(ImageView, MovesImageAndMapAlike) {
  const Stored data({{40, 48}, {24, 90}}, 32, true);
  const Split split = data.split();
  std::int64_t equal = 0, all = 0, padded = 0, flips = 0;
  double smallest = 9, largest = 0;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    const BatchAugmentation augmentation{.seed = 7, .epoch = epoch};
    const ImageView view = view_of_sample(split, epoch % 2, &augmentation);
    smallest = std::min(smallest, view.y.scale);
    largest = std::max(largest, view.y.scale);
    flips += view.flip ? 1 : 0;
    const Sample sample = assemble(split, epoch % 2, &augmentation);
    std::int64_t counted = 0;
    for (std::size_t i = 0; i < sample.labels.size(); ++i) {
      const bool is_padding = sample.image[i] == 0 && sample.image[1024 + i] == 0;
      if (is_padding && sample.labels[i] != kVoidLabel) ADD_FAILURE() << i;
      padded += is_padding ? 1 : 0;
      if (sample.labels[i] == kVoidLabel) continue;
      ++counted;
      equal += std::abs(byte_of(sample.image[i]) - 10.0F * static_cast<float>(sample.labels[i])) < 5
                   ? 1
                   : 0;
    }
    all += counted;
    EXPECT_EQ(view_labels(split, epoch % 2, view, nullptr), counted);
  }
  // Only next to an edge of a label its pixel may be a mixture.
  EXPECT_GT(static_cast<double>(equal), 0.93 * static_cast<double>(all));
  EXPECT_GT(padded, 1000);
  EXPECT_GT(flips, 30);
  EXPECT_LT(flips, 70);
  EXPECT_NEAR(smallest, 0.5, 0.05);
  EXPECT_NEAR(largest, 2, 0.15);
}

TEST(ImageView, TakesTheCentreOfAResizedPhotograph) {
  const Stored data({{64, 128}}, 28, false);
  const ImageView view = view_of_sample(data.split(), 0, nullptr);
  // 64 x 128 is resized to 32 x 64, of which 28 x 28 are taken.
  EXPECT_EQ(short_side_for(28, 28), 32);
  EXPECT_DOUBLE_EQ(view.y.scale, 2);
  EXPECT_DOUBLE_EQ(view.y.origin, 4);
  EXPECT_DOUBLE_EQ(view.x.origin, 36);
  EXPECT_EQ(view.x.first, 0);
  EXPECT_EQ(view.x.last, 28);
  EXPECT_THAT(assemble(data.split(), 0, nullptr).labels, ElementsAre(3));
}

TEST(ImageView, DrawsPartsOfPhotographsAsTorchvisionDoes) {
  const Stored data({{60, 90}}, 28, false);
  double least = 1, most = 0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const BatchAugmentation augmentation{.seed = 1, .epoch = epoch};
    const ImageView view = view_of_sample(data.split(), 0, &augmentation);
    const auto h = static_cast<double>(view.y.high - view.y.low);
    const auto w = static_cast<double>(view.x.high - view.x.low);
    least = std::min(least, h * w / 5400);
    most = std::max(most, h * w / 5400);
    EXPECT_LE(view.y.high, 60);
    EXPECT_LE(view.x.high, 90);
    EXPECT_GE(view.y.low, 0);
    EXPECT_NEAR(std::log(w / h), 0, std::log(4.0 / 3) + 0.1);
    EXPECT_EQ(view.x.last - view.x.first, 28);
  }
  EXPECT_NEAR(least, 0.08, 0.04);
  EXPECT_GT(most, 0.8);
}

// The same samples, cut alike, for one shard and for two, with and without workers.
TEST(ImageView, DependsOnSeedEpochAndSampleAlone) {
  const Stored data({{40, 48}, {24, 90}, {33, 33}, {64, 20}}, 16, true);
  const Split split = data.split();
  const auto batches = [&](int shards, int workers) {
    std::map<std::int64_t, std::vector<float>> images;
    float weight = 0;
    for (int shard = 0; shard < shards; ++shard) {
      ShardedSampler sampler({.samples = 4, .global_batch = 4, .shards = shards, .seed = 5});
      const auto samples = static_cast<std::size_t>(4 / shards);
      std::vector<float> pixels(samples * split.sample_bytes);
      std::vector<std::int32_t> labels(samples * split.labels_per_sample);
      Loader loader(split, sampler,
                    {.normalization = {.mean = {0.5}, .std = {0.1}},
                     .workers = workers,
                     .shards = {shard},
                     .buffers = {{pixels.data(), labels.data(), &weight}},
                     .augment = true,
                     .ignored_label = kVoidLabel});
      loader.begin_epoch(3, 1);
      EXPECT_NE(loader.next(), nullptr);
      sampler.begin_epoch(3);
      std::vector<std::int64_t> indices(samples);
      sampler.batch(0, shard, indices);
      for (std::size_t i = 0; i < samples; ++i) {
        images[indices[i]].assign(pixels.begin() + std::ssize(pixels) / std::ssize(indices) *
                                                       static_cast<std::ptrdiff_t>(i),
                                  pixels.begin() + std::ssize(pixels) / std::ssize(indices) *
                                                       static_cast<std::ptrdiff_t>(i + 1));
      }
    }
    return std::pair(images, weight);
  };
  const auto expected = batches(1, 0);
  EXPECT_GT(expected.second, 1);  // some labels are void
  EXPECT_EQ(expected.first.size(), 4u);
  EXPECT_EQ(batches(2, 0), expected);
  EXPECT_EQ(batches(4, 2), expected);
}

}  // namespace
}  // namespace ddpbench::data
