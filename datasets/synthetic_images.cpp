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
#include "datasets/draw_samples.h"

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
    check_extent("rows of labels", request.label_height, kMostSide);
    check_extent("columns of labels", request.label_width, kMostSide);
    info_ = {.name = request.name,
             .source = "synthetic",
             .directory = "",
             .train_samples = request.train_samples,
             .test_samples = request.test_samples,
             .channels = request.channels,
             .height = request.height,
             .width = request.width,
             .classes = request.classes,
             .label_height = request.label_height,
             .label_width = request.label_width};
    const auto labels = static_cast<std::size_t>(info_.labels_per_sample()) * sizeof(std::uint16_t);
    const auto bytes = static_cast<std::int64_t>(std::max(info_.sample_bytes(), labels));
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
    const auto labels = static_cast<std::size_t>(info_.labels_per_sample());
    draw_samples(split.labels.size() / labels, [&](std::size_t i) {
      const auto image = split.images.subspan(i * bytes, bytes);
      if (labels == 1) {
        split.labels[i] = draw_image(request_, first + i, image);
      } else {
        draw_map(request_, first + i, image, split.labels.subspan(i * labels, labels));
      }
    });
  }

  SyntheticRequest request_;
  DatasetInfo info_;
};

std::uint16_t draw_label(const SyntheticRequest& request, SplitMix64& random) {
  return static_cast<std::uint16_t>(random.below(static_cast<std::uint32_t>(request.classes)));
}

// Fills `image` with the waves of a class, moved a little, and noise.
void draw_waves(const SyntheticRequest& request, std::uint16_t label, SplitMix64& random,
                std::span<std::uint8_t> image) {
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
}

// The elements of an axis that the second class has.
struct Piece {
  std::int64_t begin, end;
};

// A share of an axis, from a quarter to three quarters of it, anywhere.
struct Stretch {
  double begin, end;

  explicit Stretch(SplitMix64& random) {
    const double length = random.uniform(0.25, 0.75);
    begin = random.uniform(0, 1 - length);
    end = begin + length;
  }
  // The elements of an axis of `count` whose middles are in it.
  Piece of(std::int64_t count) const {
    const auto first_from = [count](double share) {
      return static_cast<std::int64_t>(std::ceil(share * static_cast<double>(count) - 0.5));
    };
    return {first_from(begin), first_from(end)};
  }
};

// Where the second class is.
struct Rectangle {
  Stretch down, across;
  explicit Rectangle(SplitMix64& random) : down(random), across(random) {}
};

void copy_inside(const Rectangle& inside, const SyntheticRequest& request,
                 std::span<const std::uint8_t> from, std::span<std::uint8_t> to) {
  const Piece rows = inside.down.of(request.height), columns = inside.across.of(request.width);
  for (std::int64_t channel = 0; channel < request.channels; ++channel) {
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      const auto first =
          static_cast<std::size_t>((channel * request.height + y) * request.width + columns.begin);
      const auto count = static_cast<std::size_t>(columns.end - columns.begin);
      std::ranges::copy(from.subspan(first, count),
                        to.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
}

// The labels; at the edge of the rectangle the ignored one, if there is one.
void write_labels(const Rectangle& inside, const SyntheticRequest& request,
                  std::uint16_t outer_label, std::uint16_t inner_label,
                  std::span<std::uint16_t> labels) {
  const std::int64_t width = request.label_width;
  const Piece rows = inside.down.of(request.label_height), columns = inside.across.of(width);
  std::ranges::fill(labels, outer_label);
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    for (std::int64_t x = columns.begin; x < columns.end; ++x) {
      const bool edge =
          y == rows.begin || y + 1 == rows.end || x == columns.begin || x + 1 == columns.end;
      const bool ignored = edge && request.ignored_label != kNoLabel;
      labels[static_cast<std::size_t>(y * width + x)] =
          ignored ? static_cast<std::uint16_t>(request.ignored_label) : inner_label;
    }
  }
}

}  // namespace

std::uint16_t draw_image(const SyntheticRequest& request, std::uint64_t index,
                         std::span<std::uint8_t> image) {
  SplitMix64 random(request.seed, index);
  const std::uint16_t label = draw_label(request, random);
  draw_waves(request, label, random, image);
  return label;
}

void draw_map(const SyntheticRequest& request, std::uint64_t index, std::span<std::uint8_t> image,
              std::span<std::uint16_t> labels) {
  SplitMix64 random(request.seed, index);
  const std::uint16_t outer = draw_label(request, random), inner = draw_label(request, random);
  const Rectangle inside(random);
  std::vector<std::uint8_t> second(image.size());
  draw_waves(request, outer, random, image);
  draw_waves(request, inner, random, second);
  copy_inside(inside, request, second, image);
  write_labels(inside, request, outer, inner, labels);
}

std::unique_ptr<DatasetSource> make_synthetic_images(const SyntheticRequest& request) {
  return std::make_unique<SyntheticImages>(request);
}

}  // namespace ddpbench::data
