// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "base/random.h"

namespace ddpbench::data {
namespace {

// Test samples are those of the same sequence from here on.
constexpr std::uint64_t kTestSamplesFrom = std::uint64_t{1} << 32;
constexpr std::uint64_t kClassStream = 0x636c617373;  // "class", so that classes are no samples

constexpr std::int64_t kFewestSamples = 256, kMostSamples = 60'000;
// They tell an accuracy to a tenth of a per cent, and more maps would be evaluated for long.
constexpr std::int64_t kMostTestLabels = 1 << 18, kFewestTestMaps = 8;
constexpr std::int64_t kMostBytes = std::int64_t{256} * static_cast<std::int64_t>(kMiB);
// Two waves of 36 grey levels to either side and noise of 0 to 63 make up a pixel: 24 to 231.
constexpr double kAmplitude = 36;
constexpr int kMiddle = 48;  // of a wave
// How far a sample moves the waves of its class, in radians.
constexpr double kMove = 0.6;

// A thread takes some 50 us to start and to end, and a sample 2 us or more to draw.
constexpr std::size_t kLeastOfAThread = 256;

// One wave: `cycles` over the whole side, beginning at `phase`.
void fill_wave(std::vector<std::uint8_t>& wave, double cycles, double phase) {
  const double step = 2 * std::numbers::pi * cycles / static_cast<double>(wave.size());
  for (std::size_t i = 0; i < wave.size(); ++i) {
    const double value = kMiddle + kAmplitude * std::sin(phase + step * static_cast<double>(i));
    wave[i] = static_cast<std::uint8_t>(std::lround(value));
  }
}

// Adds random bits of `mask`, one byte repeated, to every byte, eight bytes at a time. No byte may
// carry.
void add_noise(std::span<std::uint8_t> row, std::uint64_t mask, SplitMix64& random) {
  std::size_t i = 0;
  for (; i + 8 <= row.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, row.data() + i, sizeof(word));
    word += random.next() & mask;
    std::memcpy(row.data() + i, &word, sizeof(word));
  }
  if (i == row.size()) return;
  std::uint64_t noise = random.next() & mask;
  for (; i < row.size(); ++i, noise >>= 8) {
    row[i] = static_cast<std::uint8_t>(row[i] + (noise & 0xff));
  }
}

class SyntheticSource final : public DatasetSource {
 public:
  SyntheticSource(const SyntheticRequest& request, bool digits)
      : request_(request), digits_(digits), info_(request.info) {
    if (info_.classes > kMostClasses) {
      throw ConfigError(fmt::format("synthetic images: {} classes; expected {} at most",
                                    info_.classes, kMostClasses));
    }
    info_.source = "synthetic";
    const auto labels = static_cast<std::size_t>(info_.labels_per_sample()) * sizeof(std::uint16_t);
    const auto bytes = static_cast<std::int64_t>(std::max(info_.sample_bytes(), labels));
    if (info_.train_samples == 0) {
      info_.train_samples = std::clamp(kMostBytes / bytes, kFewestSamples, kMostSamples);
    }
    if (info_.test_samples == 0) {
      const std::int64_t most =
          std::max(kFewestTestMaps, kMostTestLabels / info_.labels_per_sample());
      info_.test_samples = std::clamp<std::int64_t>(info_.train_samples / 6, 1, most);
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
    in_threads(split.labels.size() / labels, kLeastOfAThread, [&](std::size_t i) {
      const auto image = split.images.subspan(i * bytes, bytes);
      if (digits_) {
        split.labels[i] = draw_digit(request_.seed, first + i, image.first<kDigitPixels>());
      } else if (labels == 1) {
        split.labels[i] = draw_image(request_, first + i, image);
      } else {
        draw_map(request_, first + i, image, split.labels.subspan(i * labels, labels));
      }
    });
  }

  SyntheticRequest request_;
  bool digits_;
  DatasetInfo info_;
};

// A font of 5 x 7 cells: a row a number, whose highest of five bits is the left cell.
constexpr int kGlyphColumns = 5, kGlyphRows = 7;
constexpr std::array<std::array<std::uint8_t, kGlyphRows>, 10> kFont = {{
    {0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e},
    {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e},
    {0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f},
    {0x0e, 0x11, 0x01, 0x06, 0x01, 0x11, 0x0e},
    {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02},
    {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e},
    {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e},
    {0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08},
    {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e},
    {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c},
}};

// A digit with an empty cell around it, from 0 (paper) to 1 (ink), at eighths of a cell: between
// the middles of cells by how near each of the four is.
constexpr int kEighths = 8;
constexpr int kFineColumns = (kGlyphColumns + 1) * kEighths;
constexpr int kFineRows = (kGlyphRows + 1) * kEighths;
using Glyph = std::array<float, static_cast<std::size_t>(kFineColumns) * kFineRows>;

Glyph glyph_of(std::size_t digit) {
  const auto cell = [digit](int row, int column) {
    if (row < 1 || row > kGlyphRows || column < 1 || column > kGlyphColumns) return 0.0F;
    return kFont[digit][static_cast<std::size_t>(row - 1)] >> (kGlyphColumns - column) & 1 ? 1.0F
                                                                                           : 0.0F;
  };
  Glyph glyph;
  std::size_t at = 0;
  for (int y = 0; y < kFineRows; ++y) {
    for (int x = 0; x < kFineColumns; ++x) {
      const int row = y / kEighths, column = x / kEighths;
      const float down = static_cast<float>(y % kEighths) / kEighths;
      const float right = static_cast<float>(x % kEighths) / kEighths;
      glyph[at++] =
          (1 - down) * ((1 - right) * cell(row, column) + right * cell(row, column + 1)) +
          down * ((1 - right) * cell(row + 1, column) + right * cell(row + 1, column + 1));
    }
  }
  return glyph;
}

// Draws a digit's position, rotation, size, slant and slight bend. Returns the place of each pixel
// in a glyph, or the nearest one, which has no ink.
std::array<int, kDigitPixels> draw_places(SplitMix64& random) {
  const auto draw = [&random](double low, double high) {
    return static_cast<float>(random.uniform(low, high));
  };
  const float middle_x = draw(11.5, 15.5), middle_y = draw(11.5, 15.5), angle = draw(-0.3, 0.3);
  const float cells_across = draw(0.26, 0.44), cells_down = draw(0.31, 0.43);
  const float slant = draw(-0.35, 0.35), bend = draw(-0.05, 0.05);
  // Where so many cells behind the middle of an axis of `count` eighths are.
  const auto at_eighth = [](float cells, int count) {
    const float eighth = kEighths * cells + static_cast<float>(count / 2);
    return static_cast<int>(std::min(std::max(eighth, 0.0F), static_cast<float>(count - 1)));
  };
  std::array<int, kDigitPixels> places;
  for (std::size_t pixel = 0; pixel < kDigitPixels; pixel += kDigitSide) {
    const float down = static_cast<float>(pixel / kDigitSide) - middle_y;
    for (int column = 0; column < kDigitSide; ++column) {
      const float right = static_cast<float>(column) - middle_x;
      const float v = cells_down * (down - angle * right);
      const float u = cells_across * (right + angle * down) + slant * v + bend * v * v;
      const int x = at_eighth(u, kFineColumns), y = at_eighth(v, kFineRows);
      places[pixel + static_cast<std::size_t>(column)] = y * kFineColumns + x;
    }
  }
  return places;
}

std::uint16_t draw_label(const SyntheticRequest& request, SplitMix64& random) {
  return static_cast<std::uint16_t>(random.below(static_cast<std::uint32_t>(request.info.classes)));
}

// Fills `image` with the waves of a class, moved a little, and noise.
void draw_waves(const SyntheticRequest& request, std::uint16_t label, SplitMix64& random,
                std::span<std::uint8_t> image) {
  SplitMix64 of_class(combine_hash(request.seed, kClassStream), label);
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(request.info.height));
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(request.info.width));
  std::uint8_t* out = image.data();
  for (std::int64_t channel = 0; channel < request.info.channels; ++channel) {
    for (std::vector<std::uint8_t>* const wave : {&rows, &columns}) {
      const double cycles = of_class.uniform(0.5, 3.5);
      const double phase = of_class.uniform(0, 2 * std::numbers::pi);
      fill_wave(*wave, cycles, phase + random.uniform(-kMove, kMove));
    }
    for (const std::uint8_t level : rows) {
      for (std::size_t x = 0; x < columns.size(); ++x) {
        out[x] = static_cast<std::uint8_t>(level + columns[x]);
      }
      add_noise({out, columns.size()}, 0x3f3f3f3f3f3f3f3f, random);  // at most 168 before
      out += columns.size();
    }
  }
}

// A share of an axis, from a quarter to three quarters of it, anywhere.
struct Stretch {
  double begin, end;

  explicit Stretch(SplitMix64& random) {
    const double length = random.uniform(0.25, 0.75);
    begin = random.uniform(0, 1 - length);
    end = begin + length;
  }
  // Begin and end of the elements of an axis of `count` whose middles are in it.
  std::pair<std::int64_t, std::int64_t> of(std::int64_t count) const {
    const auto first_from = [count](double share) {
      return static_cast<std::int64_t>(std::ceil(share * static_cast<double>(count) - 0.5));
    };
    return {first_from(begin), first_from(end)};
  }
};

// What is in the rectangle of two stretches.
void copy_inside(const Stretch& down, const Stretch& across, const SyntheticRequest& request,
                 std::span<const std::uint8_t> from, std::span<std::uint8_t> to) {
  const auto [top, bottom] = down.of(request.info.height);
  const auto [left, right] = across.of(request.info.width);
  for (std::int64_t channel = 0; channel < request.info.channels; ++channel) {
    for (std::int64_t y = top; y < bottom; ++y) {
      const auto first =
          static_cast<std::size_t>((channel * request.info.height + y) * request.info.width + left);
      std::ranges::copy(from.subspan(first, static_cast<std::size_t>(right - left)),
                        to.subspan(first).begin());
    }
  }
}

// The labels; at the edge of the rectangle the ignored one, if there is one.
void write_labels(const Stretch& down, const Stretch& across, const SyntheticRequest& request,
                  std::uint16_t outer_label, std::uint16_t inner_label,
                  std::span<std::uint16_t> labels) {
  const auto [top, bottom] = down.of(request.info.label_height);
  const auto [left, right] = across.of(request.info.label_width);
  const std::uint16_t edge_label = request.ignored_label == kNoLabel
                                       ? inner_label
                                       : static_cast<std::uint16_t>(request.ignored_label);
  std::ranges::fill(labels, outer_label);
  for (std::int64_t y = top; y < bottom; ++y) {
    for (std::int64_t x = left; x < right; ++x) {
      const bool edge = y == top || y + 1 == bottom || x == left || x + 1 == right;
      labels[static_cast<std::size_t>(y * request.info.label_width + x)] =
          edge ? edge_label : inner_label;
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
  const Stretch down(random), across(random);  // of the second class
  std::vector<std::uint8_t> second(image.size());
  draw_waves(request, outer, random, image);
  draw_waves(request, inner, random, second);
  copy_inside(down, across, request, second, image);
  write_labels(down, across, request, outer, inner, labels);
}

std::uint8_t draw_digit(std::uint64_t seed, std::uint64_t index,
                        std::span<std::uint8_t, kDigitPixels> image) {
  SplitMix64 random(seed, index);
  const auto label = static_cast<std::uint8_t>(random.below(10));
  static const std::vector<Glyph> kGlyphs = [] {
    std::vector<Glyph> glyphs;
    for (std::size_t digit = 0; digit < kFont.size(); ++digit) glyphs.push_back(glyph_of(digit));
    return glyphs;
  }();
  const Glyph& glyph = kGlyphs[label];
  // A loop for each thing: compilers make vectors of all but the second.
  const std::array<int, kDigitPixels> places = draw_places(random);
  // Ink begins at `edge` of a cell's and is full soon after: a high one makes thin strokes.
  const auto edge = static_cast<float>(random.uniform(0.3, 0.55));
  const auto full = static_cast<float>(random.uniform(230, 248));
  std::array<float, kDigitPixels> ink;
  for (std::size_t i = 0; i < kDigitPixels; ++i) {
    ink[i] = glyph[static_cast<std::size_t>(places[i])];
  }
  for (std::size_t i = 0; i < kDigitPixels; ++i) {
    const float level = std::min(full * std::max(6 * (ink[i] - edge), 0.0F), full);
    image[i] = static_cast<std::uint8_t>(static_cast<int>(level));
  }
  add_noise(image, 0x0707070707070707, random);
  return label;
}

std::unique_ptr<DatasetSource> make_synthetic_digits(const SyntheticRequest& request) {
  SyntheticRequest digits = request;
  digits.info = {.name = request.info.name,
                 .train_samples = 60000,
                 .test_samples = 10000,
                 .height = kDigitSide,
                 .width = kDigitSide,
                 .classes = 10};
  return std::make_unique<SyntheticSource>(digits, true);
}

std::unique_ptr<DatasetSource> make_synthetic_images(const SyntheticRequest& request) {
  return std::make_unique<SyntheticSource>(request, false);
}

}  // namespace ddpbench::data
