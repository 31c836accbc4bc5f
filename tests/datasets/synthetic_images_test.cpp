// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Synthetic images of any shape and number of classes.
#include "datasets/synthetic.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "datasets/catalog.h"

namespace ddpbench::data {
namespace {

using testing::HasSubstr;

SyntheticRequest request(std::int64_t channels, std::int64_t height, std::int64_t width,
                         int classes) {
  SyntheticRequest asked{.info = {}, .seed = 3};
  asked.info.channels = channels;
  asked.info.height = height;
  asked.info.width = width;
  asked.info.classes = classes;
  return asked;
}

std::vector<std::uint8_t> drawn(const SyntheticRequest& of, std::uint64_t index,
                                std::uint16_t* label = nullptr) {
  std::vector<std::uint8_t> image(of.info.sample_bytes());
  const std::uint16_t found = draw_image(of, index, image);
  if (label != nullptr) *label = found;
  return image;
}

TEST(SyntheticImages, DependOnSeedAndIndexOnly) {
  const SyntheticRequest of = request(3, 9, 13, 10);
  EXPECT_EQ(drawn(of, 5), drawn(of, 5));
  EXPECT_NE(drawn(of, 5), drawn(of, 6));
  SyntheticRequest other = of;
  other.seed = 4;
  EXPECT_NE(drawn(of, 5), drawn(other, 5));
}

TEST(SyntheticImages, HaveAnyShapeAndMoreThan256Classes) {
  SyntheticRequest of = request(5, 7, 3, 1000);
  of.info.train_samples = 20000;
  of.info.test_samples = 40;
  const auto source = make_synthetic_images(of);
  EXPECT_EQ(source->info().source, "synthetic");
  std::vector<std::byte> decoded(source->info().decoded_bytes());
  source->decode(decoded);
  const Dataset dataset = Dataset::view(source->info(), decoded);
  EXPECT_NO_THROW(dataset.check_labels());
  EXPECT_EQ(dataset.train.sample_bytes, 105U);
  const std::set<std::uint16_t> labels(dataset.train.labels.begin(), dataset.train.labels.end());
  EXPECT_EQ(labels.size(), 1000U);  // each is left out with a probability of e^-20
  EXPECT_TRUE(std::ranges::equal(dataset.train.images.first(105), drawn(of, 0)));
  EXPECT_FALSE(std::ranges::equal(dataset.test.images.first(105), drawn(of, 0)));
}

TEST(SyntheticImages, OfMapsHaveALabelForEachPlace) {
  SyntheticRequest of = request(3, 16, 24, 7);
  of.info.label_height = 8;
  of.info.label_width = 12;
  of.ignored_label = 255;
  of.info.train_samples = 300;
  of.info.test_samples = 50;
  const auto source = make_synthetic_images(of);
  EXPECT_EQ(source->info().labels_per_sample(), 96);
  std::vector<std::byte> decoded(source->info().decoded_bytes());
  source->decode(decoded);
  const Dataset dataset = Dataset::view(source->info(), decoded);
  EXPECT_EQ(dataset.train.labels.size(), 300U * 96);
  EXPECT_EQ(dataset.test.labels.size(), 50U * 96);
  EXPECT_NO_THROW(dataset.check_labels(255));
  EXPECT_THAT([&] { dataset.check_labels(); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("record 0 of the training set")));
  const std::set<std::uint16_t> labels(dataset.train.labels.begin(), dataset.train.labels.end());
  EXPECT_EQ(labels.size(), 8U);
  // Two classes a sample at most, and the edge between them.
  std::size_t ignored = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    const auto own = dataset.train.labels.subspan(i * 96, 96);
    const std::set<std::uint16_t> of_sample(own.begin(), own.end());
    EXPECT_LE(of_sample.size(), 3U);
    ignored += static_cast<std::size_t>(std::ranges::count(own, 255));
  }
  EXPECT_GT(ignored, 300U * 96 / 20);
  EXPECT_LT(ignored, 300U * 96 / 2);
}

TEST(SyntheticImages, OfMapsDependOnSeedAndIndexOnly) {
  SyntheticRequest of = request(1, 16, 16, 5);
  of.info.label_height = of.info.label_width = 16;
  const auto drawn_map = [&](std::uint64_t index) {
    std::vector<std::uint8_t> image(256);
    std::vector<std::uint16_t> labels(256);
    draw_map(of, index, image, labels);
    return std::pair(image, labels);
  };
  EXPECT_EQ(drawn_map(4), drawn_map(4));
  EXPECT_NE(drawn_map(4), drawn_map(5));
}

TEST(SyntheticImages, FillNoMoreMemoryThanTheyNeed) {
  const auto samples = [](std::int64_t channels, std::int64_t side) {
    return make_synthetic_images(request(channels, side, side, 10))->info().train_samples;
  };
  EXPECT_EQ(samples(1, 28), 60000);
  EXPECT_EQ(samples(3, 224), 1783);  // 256 MiB
  EXPECT_EQ(samples(3, 1024), 256);
}

TEST(SyntheticImages, AreAsBrightAsTheirNormalisationSays) {
  const SyntheticRequest of = request(3, 32, 32, 10);
  double sum = 0, squares = 0, count = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    for (const std::uint8_t byte : drawn(of, i)) {
      sum += byte / 255.0;
      squares += byte / 255.0 * (byte / 255.0);
      ++count;
    }
  }
  const double mean = sum / count;
  EXPECT_NEAR(mean, kSyntheticMean, 0.03);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), kSyntheticDeviation, 0.02);
}

// The images nearest to a class's mean are its own: there is something to learn.
TEST(SyntheticImages, CanBeLearned) {
  const SyntheticRequest of = request(1, 12, 12, 8);
  constexpr std::size_t kPixels = 144;
  std::vector<std::array<double, kPixels>> means(8);
  std::array<double, 8> counts{};
  for (std::uint64_t i = 0; i < 800; ++i) {
    std::uint16_t label = 0;
    const auto image = drawn(of, i, &label);
    ++counts.at(label);
    for (std::size_t p = 0; p < kPixels; ++p) means[label][p] += image[p];
  }
  int right = 0;
  for (std::uint64_t i = 1000; i < 1200; ++i) {
    std::uint16_t label = 0;
    const auto image = drawn(of, i, &label);
    std::array<double, 8> distances{};
    for (std::size_t c = 0; c < 8; ++c) {
      for (std::size_t p = 0; p < kPixels; ++p) {
        const double difference = image[p] - means[c][p] / counts[c];
        distances[c] += difference * difference;
      }
    }
    right += std::ranges::min_element(distances) - distances.begin() == label ? 1 : 0;
  }
  EXPECT_GT(right, 160);  // of 200
}

TEST(SyntheticImages, HaveNoMoreClassesThanLabelsTell) {
  EXPECT_THAT([] { make_synthetic_images(request(1, 5, 5, 1 << 17)); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("131072 classes")));
}

TEST(SyntheticDataSet, TakesTheShapeThatIsAskedFor) {
  const auto source = open_dataset({.name = "synthetic",
                                    .directories = {"/nowhere"},
                                    .channels = 3,
                                    .height = 11,
                                    .width = 10,
                                    .classes = 7});
  EXPECT_EQ(source->info().sample_bytes(), 330U);
  EXPECT_EQ(source->info().classes, 7);
  EXPECT_EQ(source->info().name, "synthetic");
}

TEST(Fits, ComparesShapesAndNeedsAnOutputForEveryClass) {
  const CatalogEntry& mnist = find_in_catalog("mnist");
  EXPECT_TRUE(fits(mnist, 1, 28, 28, 10));
  EXPECT_TRUE(fits(mnist, 1, 28, 28, 11));
  EXPECT_FALSE(fits(mnist, 1, 28, 28, 9));
  EXPECT_FALSE(fits(mnist, 1, 28, 27, 10));
  EXPECT_TRUE(fits(find_in_catalog("synthetic"), 3, 224, 224, 1000));
}

}  // namespace
}  // namespace ddpbench::data
