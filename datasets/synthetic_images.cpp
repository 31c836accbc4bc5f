// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/synthetic_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/math.h"
#include "base/random.h"

namespace ddpbench::data {
namespace {

constexpr std::uint64_t kTestSamplesFrom = std::uint64_t{1} << 32;
constexpr std::uint64_t kClassStream = 0x636c617373;  // "class", so that classes are no samples

constexpr std::int64_t kFewestSamples = 256, kMostSamples = 60'000;
constexpr std::int64_t kMostBytes = std::int64_t{256} * static_cast<std::int64_t>(kMiB);
// Trained images are smaller by far; keeps channels * height * width below 2^40.
constexpr std::int64_t kMostChannels = 1 << 14, kMostSide = 1 << 13;

// Two waves of 36 grey levels to either side and noise of 0 to 63 make up a pixel: 24 to 231.
constexpr double kAmplitude = 36;
constexpr int kMiddle = 48;  // of a wave
// How far a sample moves the waves of its class, in radians.
constexpr double kMove = 0.6;

// One wave: `cycles` over the whole side, beginning at `phase`.
void fill_wave(std::vector<std::uint8_t>& wave, double cycles, double phase) {
  const double step = 2 * std::numbers::pi * cycles / static_cast<double>(wave.size());
  for (std::size_t i = 0; i < wave.size(); ++i) {
    const double value = kMiddle + kAmplitude * std::sin(phase + step * static_cast<double>(i));
    wave[i] = static_cast<std::uint8_t>(std::lround(value));
  }
}

// Adds 0 to 63 to every byte, eight at a time.
void add_noise(std::span<std::uint8_t> row, SplitMix64& random) {
  constexpr std::uint64_t kSixBits = 0x3f3f3f3f3f3f3f3f;
  std::size_t i = 0;
  for (; i + 8 <= row.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, row.data() + i, sizeof(word));
    word += random.next() & kSixBits;  // no byte carries: it is at most 168 before
    std::memcpy(row.data() + i, &word, sizeof(word));
  }
  if (i == row.size()) return;
  std::uint64_t noise = random.next() & kSixBits;
  for (; i < row.size(); ++i, noise >>= 8) {
    row[i] = static_cast<std::uint8_t>(row[i] + (noise & 0xff));
  }
}

void check_extent(const char* what, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw ConfigError(fmt::format("synthetic images: {} {}; expected 1 to {}", value, what, most));
}

class SyntheticImages final : public DatasetSource {
 public:
  explicit SyntheticImages(const SyntheticRequest& request) : request_(request) {
    check_extent("channels", request.channels, kMostChannels);
    check_extent("rows", request.height, kMostSide);
    check_extent("columns", request.width, kMostSide);
    check_extent("classes", request.classes, kMostClasses);
    info_ = {.name = request.name,
             .source = "synthetic",
             .directory = "",
             .train_samples = request.train_samples,
             .test_samples = request.test_samples,
             .channels = request.channels,
             .height = request.height,
             .width = request.width,
             .classes = request.classes};
    const auto bytes = static_cast<std::int64_t>(info_.sample_bytes());
    if (info_.train_samples == 0) {
      info_.train_samples = std::clamp(kMostBytes / bytes, kFewestSamples, kMostSamples);
    }
    if (info_.test_samples == 0) {
      info_.test_samples = std::max<std::int64_t>(1, info_.train_samples / 6);
    }
  }

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const DecodedParts parts = decoded_parts(info_, out);
    draw(0, parts.train);
    draw(kTestSamplesFrom, parts.test);
  }

 private:
  void draw(std::uint64_t first, const SplitMemory& split) const {
    const std::size_t bytes = info_.sample_bytes();
    for (std::size_t i = 0; i < split.labels.size(); ++i) {
      split.labels[i] = draw_image(request_, first + i, split.images.subspan(i * bytes, bytes));
    }
  }

  SyntheticRequest request_;
  DatasetInfo info_;
};

}  // namespace

std::uint16_t draw_image(const SyntheticRequest& request, std::uint64_t index,
                         std::span<std::uint8_t> image) {
  SplitMix64 random(request.seed, index);
  const auto label =
      static_cast<std::uint16_t>(random.below(static_cast<std::uint32_t>(request.classes)));
  SplitMix64 of_class(combine_hash(request.seed, kClassStream), label);
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(request.height));
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(request.width));
  std::uint8_t* out = image.data();
  for (std::int64_t channel = 0; channel < request.channels; ++channel) {
    for (std::vector<std::uint8_t>* const wave : {&rows, &columns}) {
      const double cycles = of_class.uniform(0.5, 3.5);
      const double phase = of_class.uniform(0, 2 * std::numbers::pi);
      fill_wave(*wave, cycles, phase + random.uniform(-kMove, kMove));
    }
    for (const std::uint8_t level : rows) {
      for (std::size_t x = 0; x < columns.size(); ++x) {
        out[x] = static_cast<std::uint8_t>(level + columns[x]);
      }
      add_noise({out, columns.size()}, random);
      out += columns.size();
    }
  }
  return label;
}

std::unique_ptr<DatasetSource> make_synthetic_images(const SyntheticRequest& request) {
  return std::make_unique<SyntheticImages>(request);
}

}  // namespace ddpbench::data
