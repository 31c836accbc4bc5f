// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Distances first, then ink: every piece of a stroke lowers the squared distance to the pen's path
// in the pixels around it; the grey of a pixel follows from its distance.
#include "datasets/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/random.h"
#include "datasets/digit_strokes.h"

namespace ddpbench::data {
namespace {

constexpr std::uint64_t kTestStream = std::uint64_t{1} << 32;  // test samples start here
constexpr float kFar = 1e6F;

// Squared distance in pixels from each pixel's centre to the pen's path; only right near the path.
using DistanceField = std::array<float, kDigitPixels>;

// From the strokes' box to pixels: a slight bend, then slant, size, rotation and position.
class Placement {
 public:
  explicit Placement(SplitMix64& random)
      : bend_x_(random.uniform(-0.16, 0.16)),
        bend_y_(random.uniform(-0.16, 0.16)),
        slant_(random.uniform(-0.35, 0.35)),
        scale_x_(random.uniform(6.2, 10.2)),
        scale_y_(random.uniform(7.6, 10.4)),
        shift_x_(13.5 + random.uniform(-2.2, 2.2)),
        shift_y_(13.5 + random.uniform(-2.2, 2.2)) {
    const double angle = random.uniform(-0.3, 0.3);
    cos_ = std::cos(angle);
    sin_ = std::sin(angle);
  }

  Point to_pixels(Point p) const {
    const double bent_x = p.x + bend_x_ * p.y * p.y;
    const double bent_y = p.y + bend_y_ * p.x * p.x;
    const double x = scale_x_ * (bent_x - slant_ * bent_y);
    const double y = scale_y_ * bent_y;
    return {shift_x_ + cos_ * x - sin_ * y, shift_y_ + sin_ * x + cos_ * y};
  }

 private:
  double bend_x_, bend_y_, slant_, scale_x_, scale_y_, shift_x_, shift_y_;
  double cos_ = 1, sin_ = 0;
};

// The pixels from `low - reach` to `high + reach`, as a half-open range within the image.
struct Range {
  int first = 0, last = 0;
};
Range pixels_around(double low, double high, double reach) {
  const auto side = static_cast<int>(kDigitSide);
  return {std::max(0, static_cast<int>(std::ceil(low - reach))),
          std::min(side, static_cast<int>(std::floor(high + reach)) + 1)};
}

// Lowers `field` to the distance from the piece a-b, in the pixels within `reach` of its box.
void add_piece(DistanceField& field, Point a, Point b, double reach) {
  const Range rows = pixels_around(std::min(a.y, b.y), std::max(a.y, b.y), reach);
  const Range columns = pixels_around(std::min(a.x, b.x), std::max(a.x, b.x), reach);
  const auto along_x = static_cast<float>(b.x - a.x), along_y = static_cast<float>(b.y - a.y);
  const float length2 = std::max(along_x * along_x + along_y * along_y, 1e-6F);
  for (int row = rows.first; row < rows.last; ++row) {
    const float y = static_cast<float>(row) - static_cast<float>(a.y);
    for (int column = columns.first; column < columns.last; ++column) {
      const float x = static_cast<float>(column) - static_cast<float>(a.x);
      // Nearest point of the piece, as a share of its length from a.
      const float share = std::clamp((x * along_x + y * along_y) / length2, 0.0F, 1.0F);
      const float dx = x - share * along_x, dy = y - share * along_y;
      float& distance2 = field[static_cast<std::size_t>(row * kDigitSide + column)];
      distance2 = std::min(distance2, dx * dx + dy * dy);
    }
  }
}

// Ink falls from full to none over the pixel that the pen's edge crosses. The noise is triangular
// around zero: the difference of two bytes, scaled; the sum never goes below black or above white.
void develop(const DistanceField& field, float pen_radius, SplitMix64& random,
             std::span<std::uint8_t, kDigitPixels> image) {
  const auto ink = static_cast<float>(random.uniform(225, 330));
  const auto noise = static_cast<float>(random.uniform(0.02, 0.12));
  for (std::size_t i = 0; i < kDigitPixels; i += 4) {
    std::uint64_t bits = random.next();  // two bytes a pixel
    for (std::size_t j = i; j < i + 4; ++j, bits >>= 16) {
      const int difference = static_cast<int>(bits & 0xff) - static_cast<int>(bits >> 8 & 0xff);
      const float cover = std::clamp(pen_radius + 0.5F - std::sqrt(field[j]), 0.0F, 1.0F);
      const float grey = cover * ink + noise * static_cast<float>(difference);
      image[j] = static_cast<std::uint8_t>(std::clamp(grey, 0.0F, 255.0F));
    }
  }
}

class SyntheticDigits : public DatasetSource {
 public:
  SyntheticDigits(const std::string& name, std::uint64_t seed) : seed_(seed) {
    info_ = {.name = name,
             .source = "synthetic",
             .directory = "",
             .train_samples = 60000,
             .test_samples = 10000,
             .channels = 1,
             .height = kDigitSide,
             .width = kDigitSide,
             .classes = 10};
  }

  const DatasetInfo& info() const override { return info_; }

  void decode(std::span<std::byte> out) override {
    const auto parts = decoded_parts(info_, out);
    draw(0, parts[0], parts[1]);
    draw(kTestStream, parts[2], parts[3]);
  }

 private:
  void draw(std::uint64_t first, std::span<std::uint8_t> images, std::span<std::uint8_t> labels) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] =
          draw_digit(seed_, first + i, images.subspan(i * kDigitPixels).first<kDigitPixels>());
    }
  }

  std::uint64_t seed_;
  DatasetInfo info_;
};

}  // namespace

std::uint8_t draw_digit(std::uint64_t seed, std::uint64_t index,
                        std::span<std::uint8_t, kDigitPixels> image) {
  SplitMix64 random(seed, index);
  const auto label = static_cast<std::uint8_t>(random.below(10));
  const std::vector<Polyline> strokes = digit_strokes(label, random);
  const Placement placement(random);
  const double pen_radius = random.uniform(0.8, 1.7);

  DistanceField field;
  field.fill(kFar);
  for (const Polyline& stroke : strokes) {
    for (std::size_t i = 1; i < stroke.size(); ++i) {
      add_piece(field, placement.to_pixels(stroke[i - 1]), placement.to_pixels(stroke[i]),
                pen_radius + 0.5);
    }
  }
  develop(field, static_cast<float>(pen_radius), random, image);
  return label;
}

std::unique_ptr<DatasetSource> make_synthetic_digits(const std::string& name, std::uint64_t seed) {
  return std::make_unique<SyntheticDigits>(name, seed);
}

}  // namespace ddpbench::data
