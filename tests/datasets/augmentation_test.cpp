// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Random crops and flips: their distribution, the pixels that they give, and that these depend on
// no number of shards.
#include "datasets/batch_assembler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>

#include "datasets/loader.h"

namespace ddpbench::data {
namespace {

TEST(CropAndFlipDraw, TakesEveryOffsetAndFlipsHalf) {
  constexpr int kDraws = 8100;
  std::map<int, int> down, right;
  int flips = 0;
  for (std::int64_t sample = 0; sample < kDraws; ++sample) {
    const CropAndFlip drawn = draw_crop_and_flip(1, 0, sample);
    ++down[drawn.down];
    ++right[drawn.right];
    flips += drawn.flip ? 1 : 0;
  }
  // Each of nine offsets is drawn 900 times with a deviation of 28; five deviations are allowed.
  for (const auto& counts : {down, right}) {
    EXPECT_EQ(counts.size(), 9U);
    EXPECT_EQ(counts.begin()->first, -kCropPadding);
    for (const auto& [offset, count] : counts) EXPECT_NEAR(count, 900, 141) << offset;
  }
  EXPECT_NEAR(flips, kDraws * 0.5, 225);
}

TEST(CropAndFlipDraw, DependsOnSeedEpochAndSample) {
  const auto sequence = [](std::uint64_t seed, std::int64_t epoch, std::int64_t first) {
    std::vector<CropAndFlip> drawn;
    for (int i = 0; i < 20; ++i) drawn.push_back(draw_crop_and_flip(seed, epoch, first + i));
    return drawn;
  };
  EXPECT_EQ(sequence(1, 2, 3), sequence(1, 2, 3));
  EXPECT_NE(sequence(1, 2, 3), sequence(2, 2, 3));
  EXPECT_NE(sequence(1, 2, 3), sequence(1, 3, 3));
  EXPECT_NE(sequence(1, 2, 3), sequence(1, 2, 4));
  EXPECT_NE(sequence(1, 2, 3), sequence(2, 1, 3));
}

// Images of 2 channels, 7 rows and 9 columns.
constexpr std::int64_t kChannels = 2, kHeight = 7, kWidth = 9, kCount = 30;
constexpr std::size_t kBytes = kChannels * kHeight * kWidth;

class Images {
 public:
  Images() : images_(kCount * kBytes), labels_(kCount) {
    for (std::size_t i = 0; i < images_.size(); ++i) {
      images_[i] = static_cast<std::uint8_t>(1 + i * 37 % 255);  // no pixel is black
    }
    for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<std::uint16_t>(i);
  }
  Split split() const {
    return {.images = images_,
            .labels = labels_,
            .count = kCount,
            .sample_bytes = kBytes,
            .channels = kChannels,
            .width = kWidth};
  }
  // The pixel of an image, black outside of it.
  double pixel(std::int64_t image, std::int64_t channel, std::int64_t y, std::int64_t x) const {
    if (y < 0 || y >= kHeight || x < 0 || x >= kWidth) return 0;
    return images_[static_cast<std::size_t>(((image * kChannels + channel) * kHeight + y) * kWidth +
                                            x)];
  }

 private:
  std::vector<std::uint8_t> images_;
  std::vector<std::uint16_t> labels_;
};

const Normalization kOfChannels = {.mean = {0.5, 0.25}, .std = {0.5, 0.2}};

TEST(Augmentation, PadsWithBlackCropsFlipsAndNormalisesEachChannel) {
  const Images images;
  const BatchAssembler assembler(images.split(), kOfChannels);
  const BatchAugmentation augmentation{.seed = 5, .epoch = 1};
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < kCount; ++i) indices.push_back(kCount - 1 - i);
  indices.push_back(indices[3]);  // it fills up the batch
  std::vector<float> out(indices.size() * kBytes);
  std::vector<std::int32_t> labels(indices.size());
  assembler.gather(indices, out.data(), labels.data(), &augmentation);
  std::size_t at = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const CropAndFlip drawn = draw_crop_and_flip(5, 1, indices[i]);
    EXPECT_EQ(labels[i], indices[i]);
    for (std::int64_t c = 0; c < kChannels; ++c)
      for (std::int64_t y = 0; y < kHeight; ++y)
        for (std::int64_t x = 0; x < kWidth; ++x) {
          const std::int64_t crop_x = drawn.flip ? kWidth - 1 - x : x;
          const double byte = images.pixel(indices[i], c, y + drawn.down, crop_x + drawn.right);
          const auto channel = static_cast<std::size_t>(c);
          const double expected =
              (byte / 255 - kOfChannels.mean[channel]) / kOfChannels.std[channel];
          ASSERT_NEAR(out[at++], expected, 2e-6) << i << " " << c << " " << y << " " << x;
        }
  }
}

// The images of an epoch of global batches of 12, in the global order.
std::vector<float> epoch_pixels(int shards, const std::vector<int>& of_one_loader, int workers) {
  const Images images;
  constexpr std::int64_t kGlobal = 12;
  const ShardedSampler sampler(
      {.samples = kCount, .global_batch = kGlobal, .shards = shards, .seed = 9});
  const std::int64_t steps = sampler.steps_per_epoch(), part = kGlobal / shards;
  std::vector<float> global(static_cast<std::size_t>(steps * kGlobal) * kBytes);
  for (int first = 0; first < shards; first += static_cast<int>(of_one_loader.size())) {
    LoaderOptions options{.normalization = kOfChannels,
                          .workers = workers,
                          .worker_cores = {},
                          .shards = of_one_loader,
                          .buffers = {},
                          .augment = true};
    for (int& shard : options.shards) shard += first;
    const auto samples = static_cast<std::size_t>(part) * options.shards.size();
    std::array<std::vector<float>, 2> memory;
    std::array<std::vector<std::int32_t>, 2> labels;
    for (std::size_t i = 0; i < 2; ++i) {
      memory[i].resize(samples * kBytes);
      labels[i].resize(samples);
      options.buffers.push_back({memory[i].data(), labels[i].data()});
    }
    Loader loader(images.split(), sampler, options);
    loader.begin_epoch(4, steps);
    for (std::int64_t step = 0; step < steps; ++step) {
      const float* from = loader.next()->images;
      for (const int shard : options.shards)
        for (std::int64_t j = 0; j < part; ++j, from += kBytes) {
          const auto place = static_cast<std::size_t>(sampler.place(step, shard, j));
          std::copy_n(from, kBytes, global.begin() + static_cast<std::ptrdiff_t>(place * kBytes));
        }
    }
  }
  return global;
}

TEST(Augmentation, GivesTheSamePixelsForEveryNumberOfShards) {
  const std::vector<float> one = epoch_pixels(1, {0}, 0);
  EXPECT_EQ(epoch_pixels(4, {0}, 1), one);        // ddp: each rank loads its shard
  EXPECT_EQ(epoch_pixels(3, {0, 1, 2}, 2), one);  // dp: one process loads all
  EXPECT_EQ(epoch_pixels(12, {0, 1, 2, 3}, 0), one);
}

}  // namespace
}  // namespace ddpbench::data
