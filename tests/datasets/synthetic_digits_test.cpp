// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The generated digits: reproducible, and about as hard and as bright as MNIST.
#include "datasets/synthetic.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace ddpbench::data {
namespace {

constexpr std::uint64_t kSeed = 1;

struct Digits {
  std::vector<std::uint8_t> images;
  std::vector<std::uint16_t> labels;

  std::span<const std::uint8_t> image(std::size_t i) const {
    return std::span(images).subspan(i * kDigitPixels, kDigitPixels);
  }
};

Digits draw(std::uint64_t seed, std::uint64_t first, std::size_t count) {
  Digits digits{std::vector<std::uint8_t>(count * kDigitPixels), std::vector<std::uint16_t>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<std::uint8_t> image(digits.images.data() + i * kDigitPixels, kDigitPixels);
    digits.labels[i] = draw_digit(seed, first + i, image.first<kDigitPixels>());
  }
  return digits;
}

TEST(SyntheticDigits, DependOnSeedAndIndexOnly) {
  const Digits all = draw(kSeed, 0, 50);
  const Digits later = draw(kSeed, 40, 10);
  EXPECT_TRUE(std::ranges::equal(later.images, std::span(all.images).last(10 * kDigitPixels)));
  EXPECT_TRUE(std::ranges::equal(later.labels, std::span(all.labels).last(10)));
}

// Recorded results depend on every bit.
TEST(SyntheticDigits, OfASeedStayTheSameBits) {
  const auto hash_of = [](std::uint64_t seed) {
    const Digits digits = draw(seed, 0, 1000);
    return hash_bytes(digits.labels.data(), digits.labels.size() * sizeof(digits.labels[0]),
                      hash_bytes(digits.images.data(), digits.images.size()));
  };
  EXPECT_EQ(hash_of(1), 8769950725161291687U);
  EXPECT_EQ(hash_of(2), 18296830973032693864U);
}

TEST(SyntheticDigits, DifferWithTheSeedAndWithinOne) {
  const Digits one = draw(1, 0, 50), other = draw(2, 0, 50);
  EXPECT_NE(one.labels, other.labels);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_FALSE(std::ranges::equal(one.image(i), other.image(i))) << i;
    EXPECT_FALSE(std::ranges::equal(one.image(i), one.image((i + 1) % 50))) << i;
  }
}

TEST(SyntheticDigits, HaveTheCountsAndShapesOfMnistAndDifferentTestSamples) {
  const auto source = make_synthetic_digits({.info = {}, .seed = kSeed});
  EXPECT_EQ(source->info().train_samples, 60000);
  EXPECT_EQ(source->info().test_samples, 10000);
  EXPECT_EQ(source->info().sample_bytes(), 784U);
  std::vector<std::byte> decoded(source->info().decoded_bytes());
  source->decode(decoded);
  const Dataset dataset = Dataset::view(source->info(), decoded);

  const Digits head = draw(kSeed, 0, 20);
  EXPECT_TRUE(std::ranges::equal(dataset.train.images.first(20 * kDigitPixels), head.images));
  EXPECT_TRUE(std::ranges::equal(dataset.train.labels.first(20), head.labels));
  EXPECT_FALSE(std::ranges::equal(dataset.test.images.first(20 * kDigitPixels), head.images));

  // Each label is drawn with probability 1/10: 60000 give 6000 with a deviation of 73.5. Five
  // deviations are allowed.
  std::array<int, 10> counts{};
  for (const std::uint16_t label : dataset.train.labels) ++counts.at(label);
  EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Gt(5632), testing::Lt(6368))));
}

TEST(SyntheticDigits, AreAsBrightAsMnist) {
  const Digits digits = draw(kSeed, 0, 4000);
  double sum = 0, squares = 0;
  for (const std::uint8_t byte : digits.images) {
    sum += byte / 255.0;
    squares += byte / 255.0 * (byte / 255.0);
  }
  const auto n = static_cast<double>(digits.images.size());
  // MNIST has 0.1307 and 0.3081. For the normalisation a tenth off is as good.
  EXPECT_NEAR(sum / n, 0.1307, 0.013);
  EXPECT_NEAR(std::sqrt(squares / n - sum / n * (sum / n)), 0.3081, 0.031);
}

// The share of `test` that is nearest to the mean image in `train` of its own class.
double nearest_mean_accuracy(const Digits& train, const Digits& test) {
  std::vector<std::array<double, kDigitPixels>> means(10);
  std::array<double, 10> counts{};
  for (std::size_t i = 0; i < train.labels.size(); ++i) {
    ++counts.at(train.labels[i]);
    for (std::size_t p = 0; p < kDigitPixels; ++p) means[train.labels[i]][p] += train.image(i)[p];
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < test.labels.size(); ++i) {
    std::array<double, 10> distances{};
    for (std::size_t c = 0; c < 10; ++c) {
      for (std::size_t p = 0; p < kDigitPixels; ++p) {
        const double difference = test.image(i)[p] - means[c][p] / counts[c];
        distances[c] += difference * difference;
      }
    }
    const auto nearest = std::ranges::min_element(distances) - distances.begin();
    right += nearest == test.labels[i] ? 1U : 0U;
  }
  return static_cast<double>(right) / static_cast<double>(test.labels.size());
}

// Below 0.5 no class is worth learning; above 0.95 nothing is left to learn. MNIST itself has 0.82.
TEST(SyntheticDigits, AreNeitherNoiseNorTrivial) {
  const double accuracy =
      nearest_mean_accuracy(draw(kSeed, 0, 3000), draw(kSeed, std::uint64_t{1} << 32, 1000));
  EXPECT_GT(accuracy, 0.5);
  EXPECT_LT(accuracy, 0.95);
}

}  // namespace
}  // namespace ddpbench::data
