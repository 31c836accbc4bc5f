// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches assembled on the device equal those that the loader assembles on the host.
#include <array>
#include <random>

#include "base/error.h"
#include "datasets/batch_assembler.h"
#include "tests/ops/op_harness.h"

namespace ddpbench::ops::testing {
namespace {

constexpr std::int64_t kSamples = 20, kElements = 28 * 28;
constexpr std::array<double, 1> kMean = {0.1307}, kStd = {0.3081};

std::vector<std::uint8_t> random_bytes(std::int64_t count) {
  std::mt19937 random(1);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

TEST(BatchGather, GivesTheBitsOfTheLoaderFromAnyPosition) {
  const std::vector<std::uint8_t> images = random_bytes(kSamples * kElements);
  std::vector<std::uint16_t> labels;
  for (const std::uint8_t byte : random_bytes(kSamples))
    labels.push_back(static_cast<std::uint16_t>(byte * 5));
  const std::vector<std::int32_t> indices = {9, 9, 3, 19, 0, 7};
  const data::Split split{.images = images,
                          .labels = labels,
                          .count = kSamples,
                          .sample_bytes = static_cast<std::size_t>(kElements)};
  const data::BatchAssembler loader(split, {.mean = {kMean[0]}, .std = {kStd[0]}});
  const std::uint64_t position = 2;
  std::vector<BackendFixture> fixtures;
  fixtures.push_back(BackendFixture::reference());
  fixtures.push_back(BackendFixture::onednn());
  for (BackendFixture& fixture : fixtures)
    for (const std::size_t first : {0, 2}) {
      const std::vector<std::int64_t> wanted(
          indices.begin() + static_cast<std::ptrdiff_t>(first),
          indices.begin() + static_cast<std::ptrdiff_t>(first) + 4);
      Values want(4 * kElements), got(4 * kElements);
      std::vector<std::int32_t> want_labels(4), got_labels(4);
      loader.gather(wanted, want.data(), want_labels.data());
      fixture.backend().gather(fixture.stream(), {.images = images.data(),
                                                  .labels = labels.data(),
                                                  .indices = indices.data(),
                                                  .position = first == 0 ? nullptr : &position,
                                                  .batch = 4,
                                                  .sample_elements = kElements,
                                                  .mean = kMean,
                                                  .std = kStd,
                                                  .out = got.data(),
                                                  .labels_out = got_labels.data()});
      EXPECT_TRUE(same_bits(got, want));
      EXPECT_EQ(got_labels, want_labels);
    }
}

TEST(BatchGather, TakesTheLabelsOfMaps) {
  constexpr std::int64_t kLabels = 6;
  const std::vector<std::uint8_t> images = random_bytes(kSamples * kElements);
  std::vector<std::uint16_t> labels;
  for (const std::uint8_t byte : random_bytes(kSamples * kLabels)) labels.push_back(byte);
  const std::vector<std::int32_t> indices = {9, 19, 0};
  BackendFixture fixture = BackendFixture::reference();
  Values out(3 * kElements);
  std::vector<std::int32_t> got(3 * kLabels), want;
  fixture.backend().gather(fixture.stream(), {.images = images.data(),
                                              .labels = labels.data(),
                                              .indices = indices.data(),
                                              .batch = 3,
                                              .sample_elements = kElements,
                                              .labels_per_sample = kLabels,
                                              .mean = kMean,
                                              .std = kStd,
                                              .out = out.data(),
                                              .labels_out = got.data()});
  for (const std::int32_t index : indices) {
    const auto first = labels.begin() + index * kLabels;
    want.insert(want.end(), first, first + kLabels);
  }
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace ddpbench::ops::testing
