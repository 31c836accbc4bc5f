// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "datasets/readers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "base/error.h"
#include "tests/datasets/test_files.h"
#include "tests/datasets/test_images.h"

namespace ddpbench::data {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kFileHeight = 6, kFileWidth = 10;

std::vector<std::uint8_t> counted_bytes(int channels) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kFileHeight * kFileWidth * channels));
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

std::vector<std::uint8_t> repeated(std::initializer_list<int> pixel) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < kFileHeight * kFileWidth; ++i) {
    for (const int value : pixel) bytes.push_back(static_cast<std::uint8_t>(value));
  }
  return bytes;
}

std::string png_of(const std::vector<std::uint8_t>& pixels, PngKind kind) {
  return png_file(kFileHeight, kFileWidth, pixels, kind);
}

// The message that refuses the file as a photograph or as a map; empty: it is read.
std::string refusal(const std::string& file, bool map = false) {
  try {
    map ? decode_label_map(file, "a/b.png") : decode_photograph(file, "a/b.png");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ImageFile, HasThePixelsOfAPng) {
  const auto rgb = counted_bytes(3);
  const Image image = decode_photograph(png_of(rgb, PngKind::rgb), "");
  EXPECT_EQ(image.height, kFileHeight);
  EXPECT_EQ(image.width, kFileWidth);
  EXPECT_EQ(image.pixels, rgb);
}

TEST(ImageFile, MakesThreeChannelsOfGreyPalettesAndTransparency) {
  const auto grey = counted_bytes(1);
  const Image of_grey = decode_photograph(png_of(grey, PngKind::grey), "");
  const Image of_palette = decode_photograph(png_of(grey, PngKind::palette), "");
  auto rgba = counted_bytes(4);
  const Image of_rgba = decode_photograph(png_of(rgba, PngKind::rgba), "");
  for (std::size_t i = 0; i < grey.size(); ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(of_grey.pixels[3 * i + c], grey[i]);
      EXPECT_EQ(of_palette.pixels[3 * i + c], palette_colour(grey[i], static_cast<int>(c)));
      EXPECT_EQ(of_rgba.pixels[3 * i + c], rgba[4 * i + c]);
    }
  }
}

TEST(ImageFile, ReadsGreyAndColouredJpeg) {
  const Image grey = decode_photograph(jpeg_file(kFileHeight, kFileWidth, repeated({100}), 1), "");
  EXPECT_EQ(grey.pixels.size(), std::size_t{3} * kFileHeight * kFileWidth);
  EXPECT_THAT(grey.pixels, Each(100));
  const Image image =
      decode_photograph(jpeg_file(kFileHeight, kFileWidth, repeated({200, 90, 30}), 3), "");
  ASSERT_EQ(image.height, kFileHeight);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    EXPECT_NEAR(image.pixels[i], (std::array{200, 90, 30}[i % 3]), 2);
  }
}

// Pillow: Image.new("CMYK") of (255 - c, ...) saved and converted to RGB gives c * k / 255.
TEST(ImageFile, ConvertsInksAsPillowDoes) {
  const Image image =
      decode_photograph(jpeg_file(kFileHeight, kFileWidth, repeated({200, 100, 0, 128}), 4), "");
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    EXPECT_NEAR(image.pixels[i], (std::array{100, 50, 0}[i % 3]), 3);
  }
}

// torchvision's loader does not rotate either.
TEST(ImageFile, DoesNotRotateAsExifAsks) {
  const std::string plain = jpeg_file(kFileHeight, kFileWidth, counted_bytes(3), 3);
  const std::string tag("\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00", 12);  // orientation: 6
  const std::string exif =
      std::string("Exif\0\0MM\0\x2a\0\0\0\x08\0\x01", 16) + tag + std::string(4, '\0');
  const std::string rotated = plain.substr(0, 2) + "\xff\xe1" + std::string(1, '\0') +
                              static_cast<char>(exif.size() + 2) + exif + plain.substr(2);
  const Image image = decode_photograph(rotated, "");
  EXPECT_EQ(image.width, kFileWidth);
  EXPECT_EQ(image.pixels, decode_photograph(plain, "").pixels);
}

TEST(ImageFile, TakesThePalettesNumbersForLabels) {
  const auto labels = counted_bytes(1);
  for (const PngKind kind : {PngKind::palette, PngKind::grey}) {
    const Image map = decode_label_map(png_of(labels, kind), "");
    EXPECT_EQ(map.height, kFileHeight);
    EXPECT_EQ(map.pixels, labels);
  }
}

TEST(ImageFile, RefusesWhatIsNoMapOfLabels) {
  EXPECT_THAT(refusal(png_of(counted_bytes(3), PngKind::rgb), true),
              AllOf(StartsWith("a/b.png: colours;"), HasSubstr("palette")));
  EXPECT_THAT(refusal(jpeg_file(kFileHeight, kFileWidth, counted_bytes(1), 1), true),
              StartsWith("a/b.png: not a PNG file"));
}

TEST(ImageFile, RefusesOtherFiles) {
  EXPECT_THAT(refusal(png_of(counted_bytes(2), PngKind::grey16)),
              StartsWith("a/b.png: 16 bits a channel"));
  EXPECT_THAT(refusal(""), StartsWith("a/b.png: it is empty"));
  EXPECT_THAT(refusal("<html>"), StartsWith("a/b.png: not a JPEG or PNG file, but a web page"));
  EXPECT_THAT(refusal("GIF89a"), StartsWith("a/b.png: not a JPEG or PNG file"));
}

TEST(ImageFile, RefusesEveryFileThatIsCutShort) {
  const std::string jpeg = jpeg_file(kFileHeight, kFileWidth, counted_bytes(3), 3);
  const std::string png = png_of(counted_bytes(1), PngKind::palette);
  for (std::size_t bytes = 0; bytes + 2 < jpeg.size(); bytes += 1 + bytes / 40) {
    EXPECT_THAT(refusal(jpeg.substr(0, bytes)), StartsWith("a/b.png: ")) << bytes;
  }
  for (std::size_t bytes = 0; bytes < png.size(); bytes += 1 + bytes / 40) {
    EXPECT_THAT(refusal(png.substr(0, bytes)), StartsWith("a/b.png: ")) << bytes;
    EXPECT_THAT(refusal(png.substr(0, bytes), true), StartsWith("a/b.png: ")) << bytes;
  }
}

TEST(ImageFile, RefusesAPngWithAWrongByte) {
  std::string png = png_of(counted_bytes(3), PngKind::rgb);
  char& byte = png[png.find("IDAT") + 10];
  byte = static_cast<char>(byte ^ 1);
  EXPECT_THAT(refusal(png), HasSubstr("not a whole PNG file"));
}

// A header that claims 65500 x 65500 pixels must not get 12 GB.
TEST(ImageFile, RefusesEnormousImagesBeforeItAllocates) {
  std::string jpeg = jpeg_file(kFileHeight, kFileWidth, counted_bytes(3), 3);
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT(refusal(jpeg), HasSubstr("at most 178956970"));
}

// The decoder then needs fewer bytes than there are, and skips the others.
TEST(ImageFile, RefusesAJpegThatIsDamagedInTheMiddle) {
  std::vector<std::uint8_t> noise(std::size_t{3} * 64 * 64);
  std::ranges::generate(noise, std::minstd_rand(1));
  std::string jpeg = jpeg_file(64, 64, noise, 3);
  EXPECT_EQ(refusal(jpeg), "");
  jpeg.replace(jpeg.size() / 2, 256, 256, '\0');
  EXPECT_THAT(refusal(jpeg), AllOf(HasSubstr("not a whole JPEG file"), HasSubstr("extraneous")));
}

TEST(ImageFile, AllowsBytesBetweenThePartsOfAJpeg) {
  std::string jpeg = jpeg_file(kFileHeight, kFileWidth, counted_bytes(3), 3);
  const std::size_t table = jpeg.find("\xff\xc4");
  ASSERT_NE(table, jpeg.npos);
  jpeg.insert(table, 4, 'x');
  EXPECT_EQ(refusal(jpeg), "");
}

}  // namespace
}  // namespace ddpbench::data
