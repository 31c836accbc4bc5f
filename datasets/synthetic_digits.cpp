// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A digit is drawn in two passes. First every piece of a stroke lowers the squared distance to the
// pen's path in the pixels around it. Then the grey of a pixel follows from its distance.
#include "datasets/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
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
constexpr float kFar = 1e6F;

// Squared distance in pixels from each pixel's centre to the pen's path; exact only near the path.
using DistanceField = std::array<float, kDigitPixels>;

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

// The pixels from `low - reach` to `high + reach`, as a half-open range within the image.
struct Range {
  int first = 0, last = 0;
};
Range pixels_around(double low, double high, double reach) {
  const auto side = static_cast<int>(kDigitSide);
  return {std::max(0, static_cast<int>(std::ceil(low - reach))),
          std::min(side, static_cast<int>(std::floor(high + reach)) + 1)};
}

// Pixels are worked on in groups of neighbours, which any x86-64 takes in one instruction.
constexpr int kLanes = 4;
static_assert(kDigitPixels % kLanes == 0);
using Lanes [[gnu::vector_size(sizeof(float) * kLanes)]] = float;
using IntLanes [[gnu::vector_size(sizeof(int) * kLanes)]] = int;
using PairLanes [[gnu::vector_size(16)]] = std::uint16_t;
using WideLanes [[gnu::vector_size(16)]] = std::uint64_t;
using ByteLanes [[gnu::vector_size(kLanes)]] = std::uint8_t;

Lanes loaded(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

Lanes lower(Lanes a, Lanes b) { return a < b ? a : b; }

Lanes clamped(Lanes value, float low, float high) {
  value = value < low ? Lanes{} + low : value;
  return value > high ? Lanes{} + high : value;
}

// Lowers `field` to the distance from the piece a-b, in the pixels within `reach` of its box and in
// those that share a group with them.
void add_piece(DistanceField& field, Point a, Point b, double reach) {
  constexpr Lanes kSteps = {0, 1, 2, 3};
  constexpr int kLastGroup = kDigitSide - kLanes;
  const Range rows = pixels_around(std::min(a.y, b.y), std::max(a.y, b.y), reach);
  const Range columns = pixels_around(std::min(a.x, b.x), std::max(a.x, b.x), reach);
  const auto from_x = static_cast<float>(a.x), from_y = static_cast<float>(a.y);
  const auto along_x = static_cast<float>(b.x - a.x), along_y = static_cast<float>(b.y - a.y);
  const float length2 = std::max(along_x * along_x + along_y * along_y, 1e-6F);
  for (int column = columns.first; column < columns.last; column += kLanes) {
    const int group = std::min(column, kLastGroup);
    const Lanes x = static_cast<float>(group) + kSteps - from_x;
    for (int row = rows.first; row < rows.last; ++row) {
      const float y = static_cast<float>(row) - from_y;
      // Nearest point of the piece, as a share of its length from a.
      const Lanes share = clamped((x * along_x + y * along_y) / length2, 0, 1);
      const Lanes dx = x - share * along_x, dy = y - share * along_y;
      float* const at = &field[static_cast<std::size_t>(row * kDigitSide + group)];
      const Lanes distance2 = lower(dx * dx + dy * dy, loaded(at));
      std::memcpy(at, &distance2, sizeof(distance2));
    }
  }
}

// Triangular around zero, from -255 to 255: the difference of two of the bytes in `bits` a pixel.
IntLanes noise_of(std::uint64_t bits) {
  const auto pairs = reinterpret_cast<PairLanes>(WideLanes{bits, 0});
  const auto wide = reinterpret_cast<IntLanes>(
      __builtin_shufflevector(pairs, PairLanes{}, 0, 8, 1, 9, 2, 10, 3, 11));
  return (wide & 0xff) - (wide >> 8);
}

// Ink falls from full to none over the pixel that the pen's edge crosses. The sum with the noise is
// clamped to black and white.
void develop(const DistanceField& field, float pen_radius, SplitMix64& random,
             std::span<std::uint8_t, kDigitPixels> image) {
  const auto ink = static_cast<float>(random.uniform(225, 330));
  const auto noise = static_cast<float>(random.uniform(0.02, 0.12));
  const float edge = pen_radius + 0.5F;
  // All noise is drawn first: that is a chain of its own, which the groups need not wait for.
  std::array<std::uint64_t, kDigitPixels / kLanes> bits;
  for (std::uint64_t& drawn : bits) drawn = random.next();
  for (std::size_t i = 0; i < kDigitPixels; i += kLanes) {
    const Lanes distance2 = loaded(&field[i]);
    const Lanes distance = {std::sqrt(distance2[0]), std::sqrt(distance2[1]),
                            std::sqrt(distance2[2]), std::sqrt(distance2[3])};
    const Lanes grey = noise * __builtin_convertvector(noise_of(bits[i / kLanes]), Lanes) +
                       clamped(edge - distance, 0, 1) * ink;
    const auto whole = __builtin_convertvector(clamped(grey, 0, 255), IntLanes);
    const auto bytes = __builtin_convertvector(whole, ByteLanes);
    std::memcpy(&image[i], &bytes, sizeof(bytes));
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

std::unique_ptr<DatasetSource> make_synthetic_digits(const SyntheticRequest& request) {
  return std::make_unique<SyntheticDigits>(request.name, request.seed);
}

}  // namespace ddpbench::data
