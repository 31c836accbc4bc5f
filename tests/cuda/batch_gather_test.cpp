// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches assembled on the device equal those of the reference bit for bit.
#include <random>

#include "tests/cuda/cuda_fixture.h"

namespace ddpbench::ops::testing {
namespace {

using CudaBatchGather = CudaOps;

struct Gathered {
  Values images;
  std::vector<std::int32_t> labels;
};

constexpr std::int64_t kSamples = 50;

Gathered gather(BackendFixture& fixture, std::int64_t pixels, std::int64_t channels,
                std::int64_t batch, const std::uint64_t* position, std::int64_t labels_each = 1) {
  const std::vector<double> mean = {0.1307, 0.5, 0.25}, std = {0.3081, 0.2, 1};
  const std::int64_t elements = channels * pixels;
  std::mt19937 random(1);
  std::vector<std::uint8_t> images(static_cast<std::size_t>(kSamples * elements));
  std::vector<std::uint16_t> labels(static_cast<std::size_t>(kSamples * labels_each));
  for (auto& byte : images) byte = static_cast<std::uint8_t>(random());
  for (auto& label : labels) label = static_cast<std::uint16_t>(random() % 1000);
  std::vector<std::int32_t> indices(40);
  for (auto& index : indices) index = static_cast<std::int32_t>(random() % kSamples);
  const OpMemory image_memory = fixture.upload(images), label_memory = fixture.upload(labels);
  const OpMemory index_memory = fixture.upload(indices);
  const OpMemory counter =
      position ? fixture.upload(position, sizeof(*position)) : fixture.allocate(8);
  const OpMemory out = fixture.allocate(static_cast<std::size_t>(batch * elements) * sizeof(float));
  const OpMemory labels_out = fixture.allocate(static_cast<std::size_t>(batch * labels_each) * 4);
  const auto channel_count = static_cast<std::size_t>(channels);
  fixture.backend().gather(
      fixture.stream(),
      {.images = reinterpret_cast<const std::uint8_t*>(image_memory.data()),
       .labels = reinterpret_cast<const std::uint16_t*>(label_memory.data()),
       .indices = reinterpret_cast<const std::int32_t*>(index_memory.data()),
       .position = position ? reinterpret_cast<const std::uint64_t*>(counter.data()) : nullptr,
       .batch = batch,
       .sample_elements = elements,
       .labels_per_sample = labels_each,
       .channels = channels,
       .mean = std::span(mean).first(channel_count),
       .std = std::span(std).first(channel_count),
       .out = reinterpret_cast<float*>(out.data()),
       .labels_out = reinterpret_cast<std::int32_t*>(labels_out.data())});
  return {fixture.download<float>(out), fixture.download<std::int32_t>(labels_out)};
}

TEST_F(CudaBatchGather, EqualsTheReferenceBitForBit) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  const std::uint64_t begin = 33;
  // Multiples of four and others: read by words and by bytes.
  for (const std::int64_t pixels : {35, 36})
    for (const std::int64_t channels : {1, 3})
      for (const std::int64_t batch : {1, 7})
        for (const std::uint64_t* position : {static_cast<const std::uint64_t*>(nullptr), &begin}) {
          const Gathered want = gather(plain, pixels, channels, batch, position);
          const Gathered got = gather(fixture, pixels, channels, batch, position);
          EXPECT_TRUE(same_bits(got.images, want.images));
          EXPECT_EQ(got.labels, want.labels);
        }
}

// More labels than an image has pieces, and fewer.
TEST_F(CudaBatchGather, TakesTheLabelsOfMaps) {
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = cuda_backend();
  for (const std::int64_t labels_each : {2, 9, 50}) {
    const Gathered want = gather(plain, 36, 1, 7, nullptr, labels_each);
    const Gathered got = gather(fixture, 36, 1, 7, nullptr, labels_each);
    EXPECT_TRUE(same_bits(got.images, want.images));
    EXPECT_EQ(got.labels, want.labels);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
