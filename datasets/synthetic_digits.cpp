// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The strokes of each digit and where they are placed. digit_pen.cpp draws them.
#include "datasets/synthetic_digits.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "datasets/draw_samples.h"

namespace ddpbench::data {
namespace {

struct Ellipse {
  Point centre;
  double radius_x = 0, radius_y = 0;
};

// Appends the arc from angle `from` to angle `to` (either direction). Straight pieces of about 24
// degrees stay within 0.02 of the radius: a sixth of a pixel.
void append_arc(Polyline& line, const Ellipse& ellipse, double from, double to) {
  const int pieces = std::max(2, static_cast<int>(std::abs(to - from) / 24));
  for (int i = 0; i <= pieces; ++i) {
    const double angle = (from + (to - from) * i / pieces) * std::numbers::pi / 180;
    line.push_back({ellipse.centre.x + ellipse.radius_x * std::cos(angle),
                    ellipse.centre.y + ellipse.radius_y * std::sin(angle)});
  }
}

Polyline arc(const Ellipse& ellipse, double from, double to) {
  Polyline line;
  append_arc(line, ellipse, from, to);
  return line;
}

using Strokes = std::vector<Polyline>;

Strokes zero(SplitMix64& random) {
  const double start = random.uniform(230, 310);
  return {arc({{0, 0}, random.uniform(0.42, 0.72), 1}, start, start + random.uniform(345, 375))};
}

Strokes one(SplitMix64& random) {
  Strokes strokes = {{{0, -1}, {0, 1}}};
  const std::uint32_t form = random.below(4);  // two of four are a plain line, as most people write
  if (form >= 2) strokes[0].insert(strokes[0].begin(), Point{-0.4, random.uniform(-0.7, -0.45)});
  if (form == 3) strokes.push_back({{-0.4, 1}, {0.4, 1}});
  return strokes;
}

Strokes two(SplitMix64& random) {
  Polyline line = arc({{0, -0.45}, 0.58, 0.55}, random.uniform(180, 210), random.uniform(385, 405));
  if (random.below(2) == 0) {
    line.push_back({-0.6, 1});
  } else {  // with a loop at the foot
    append_arc(line, {{-0.42, 0.8}, 0.22, 0.2}, 60, 330);
  }
  line.push_back({0.65, random.uniform(0.85, 1.05)});
  return {line};
}

Strokes three(SplitMix64& random) {
  const double waist = random.uniform(-0.12, 0.08);
  Polyline line =
      arc({{-0.05, (waist - 1) / 2}, 0.5, (1 + waist) / 2}, random.uniform(195, 220), 440);
  append_arc(line, {{-0.05, (waist + 1) / 2}, 0.62, (1 - waist) / 2}, -80,
             random.uniform(140, 165));
  return {line};
}

Strokes four(SplitMix64& random) {
  const double bar = random.uniform(0.1, 0.4);
  if (random.below(2) == 0) {  // closed
    return {{{0.25, 1}, {0.25, -1}, {-0.65, bar}, {0.65, bar}}};
  }
  return {{{random.uniform(-0.55, -0.2), -1}, {-0.6, bar}, {0.6, bar}},
          {{0.35, random.uniform(-0.9, -0.4)}, {0.25, 1}}};
}

Strokes five(SplitMix64& random) {
  Polyline line = {{random.uniform(0.4, 0.65), -1}, {-0.4, -1}, {-0.48, -0.12}};
  append_arc(line, {{-0.05, 0.38}, random.uniform(0.5, 0.66), 0.62}, -125,
             random.uniform(140, 165));
  return {line};
}

Strokes six(SplitMix64& random) {
  const double top = random.uniform(0.1, 0.5);
  const double loop = random.uniform(0.42, 0.58);  // half of its height
  Polyline line = {{top, -1}, {(top - 0.5) / 2, -0.55}};
  append_arc(line, {{0, 1 - loop}, 0.56, loop}, 190, -180);
  return {line};
}

Strokes seven(SplitMix64& random) {
  const double foot = random.uniform(-0.35, 0.1);
  Strokes strokes = {{{-0.6, random.uniform(-1, -0.85)}, {0.6, -1}, {foot, 1}}};
  if (random.below(3) == 0) strokes.push_back({{-0.25, 0}, {0.55, 0}});
  return strokes;
}

Strokes eight(SplitMix64& random) {
  const double waist = random.uniform(-0.15, 0.08);
  const double upper = random.uniform(0.36, 0.5), lower = random.uniform(0.46, 0.62);
  Polyline line = arc({{0, (waist - 1) / 2}, upper, (1 + waist) / 2}, 90, 450);
  append_arc(line, {{0, (waist + 1) / 2}, lower, (1 - waist) / 2}, -90, 270);
  return {line};
}

Strokes nine(SplitMix64& random) {
  const double loop = random.uniform(0.42, 0.58);  // half of its height
  Polyline line = arc({{0, loop - 1}, 0.54, loop}, 0, -360);
  if (random.below(2) == 0) {
    line.push_back({random.uniform(0.2, 0.5), 1});
  } else {
    append_arc(line, {{0, 0.35}, 0.55, 0.65}, 0, random.uniform(100, 140));
  }
  return {line};
}

constexpr std::uint64_t kTestStream = std::uint64_t{1} << 32;  // test samples start here

// Maps the strokes' box to pixels: a slight bend, then slant, size, rotation and position.
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
    const DecodedParts parts = decoded_parts(info_, out);
    draw(0, parts.train);
    draw(kTestStream, parts.test);
  }

 private:
  void draw(std::uint64_t first, const SplitMemory& split) {
    draw_samples(split.labels.size(), [&](std::size_t i) {
      split.labels[i] = draw_digit(seed_, first + i,
                                   split.images.subspan(i * kDigitPixels).first<kDigitPixels>());
    });
  }

  std::uint64_t seed_;
  DatasetInfo info_;
};

}  // namespace

// Coordinates were drawn by hand on a grid. Angles are degrees, 0 to the right, 90 downwards.

std::vector<Polyline> digit_strokes(int digit, SplitMix64& random) {
  switch (digit) {
    case 0:
      return zero(random);
    case 1:
      return one(random);
    case 2:
      return two(random);
    case 3:
      return three(random);
    case 4:
      return four(random);
    case 5:
      return five(random);
    case 6:
      return six(random);
    case 7:
      return seven(random);
    case 8:
      return eight(random);
    case 9:
      return nine(random);
    default:
      throw InternalError(fmt::format("no strokes for digit {}", digit));
  }
}

std::uint8_t draw_digit(std::uint64_t seed, std::uint64_t index,
                        std::span<std::uint8_t, kDigitPixels> image) {
  SplitMix64 random(seed, index);
  const auto label = static_cast<std::uint8_t>(random.below(10));
  std::vector<Polyline> strokes = digit_strokes(label, random);
  const Placement placement(random);
  for (Polyline& stroke : strokes) {
    for (Point& point : stroke) point = placement.to_pixels(point);
  }
  const double pen_radius = random.uniform(0.8, 1.7);
  draw_strokes(strokes, pen_radius, random, image);
  return label;
}

std::unique_ptr<DatasetSource> make_synthetic_digits(const SyntheticRequest& request) {
  return std::make_unique<SyntheticDigits>(request.name, request.seed);
}

}  // namespace ddpbench::data
