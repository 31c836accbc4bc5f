// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// libpng reports an error by a jump over frames of C, so the function that calls it owns nothing:
// what must be freed belongs to its caller.
#include "datasets/readers.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "base/error.h"
#include "base/file.h"

namespace ddpbench::data {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;
constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n", kJpegSignature = "\xff\xd8\xff";

[[noreturn]] void refuse(const std::string& path, std::string_view what) {
  throw ConfigError(fmt::format("{}: {}", path, what));
}

// An image of this size, its pixels not yet filled.
Image make_image(std::int64_t height, std::int64_t width, std::int64_t channels,
                 const std::string& path) {
  if (height < 1 || width < 1) refuse(path, "not a whole image: it has no pixels");
  if (height > kMostPixels / width) {
    refuse(path, fmt::format("an image of {} x {} pixels; at most {} are read", height, width,
                             kMostPixels));
  }
  return {height, width,
          std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * channels))};
}

// ---- JPEG ----

// Adobe writes the four inks inverted, and Pillow takes every file for one of Adobe's.
void convert_cmyk(std::span<const std::uint8_t> inks, std::vector<std::uint8_t>& rgb) {
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    const std::size_t pixel = i / 3 * 4;
    rgb[i] = static_cast<std::uint8_t>((inks[pixel + i % 3] * inks[pixel + 3] + 127) / 255);
  }
}

Image decode_jpeg(std::string_view contents, const std::string& path) {
  const std::unique_ptr<void, decltype(&tjDestroy)> handle(tjInitDecompress(), &tjDestroy);
  if (!handle) throw std::bad_alloc();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(contents.data());
  // A few bytes between two parts of a file do no harm, and some of ImageNet's files have them.
  // Damaged pixels often end in many: those of the sample of VOC in more than 16, each of 449
  // times.
  constexpr int kHarmlessBytes = 16;
  const auto check = [&](int status) {
    if (status == 0) return;
    const char* const words = tjGetErrorStr2(handle.get());
    int skipped = 0, end = 0;
    std::sscanf(words, "Corrupt JPEG data: %d extraneous bytes%n", &skipped, &end);
    if (end == 0 || skipped > kHarmlessBytes)
      refuse(path, fmt::format("not a whole JPEG file: {}", words));
  };
  int width = 0, height = 0, sampling = 0, space = 0;
  check(tjDecompressHeader3(handle.get(), bytes, contents.size(), &width, &height, &sampling,
                            &space));
  Image image = make_image(height, width, 3, path);
  const bool inks = space == TJCS_CMYK || space == TJCS_YCCK;
  std::vector<std::uint8_t> four(inks ? image.pixels.size() / 3 * 4 : 0);
  check(tjDecompress2(handle.get(), bytes, contents.size(), (inks ? four : image.pixels).data(),
                      width, 0, height, inks ? TJPF_CMYK : TJPF_RGB, 0));
  if (inks) convert_cmyk(four, image.pixels);
  return image;
}

// ---- PNG ----

// What libpng has of a file, and what it said of it.
struct PngFile {
  explicit PngFile(std::string_view contents) : rest(contents) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &PngFile::fail, &PngFile::ignore);
    if (png == nullptr) throw std::bad_alloc();
    info = png_create_info_struct(png);
    png_set_read_fn(png, this, &PngFile::read);
  }
  ~PngFile() { png_destroy_read_struct(&png, &info, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  static void read(png_structp png, png_bytep out, std::size_t bytes) {
    auto& file = *static_cast<PngFile*>(png_get_io_ptr(png));
    if (bytes > file.rest.size()) png_error(png, "it is cut short");
    std::memcpy(out, file.rest.data(), bytes);
    file.rest.remove_prefix(bytes);
  }
  [[noreturn]] static void fail(png_structp png, png_const_charp words) {
    auto& file = *static_cast<PngFile*>(png_get_error_ptr(png));
    std::snprintf(file.error, sizeof(file.error), "%s", words);
    png_longjmp(png, 1);
  }
  static void ignore(png_structp, png_const_charp) {}

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view rest;
  char error[128] = {};
};

// Reads the whole file into `rows`; false when libpng jumped back. It owns nothing.
bool read_png(PngFile& file, int transforms, std::uint8_t** rows) {
  if (file.info == nullptr || setjmp(png_jmpbuf(file.png)) != 0) return false;
  png_set_rows(file.png, file.info, rows);
  png_read_png(file.png, file.info, transforms, nullptr);
  return true;
}

Image decode_png(std::string_view contents, const std::string& path, bool labels) {
  // Behind the signature, and the length and the name of the first chunk.
  constexpr std::size_t kWidthAt = 16, kHeightAt = 20, kDepthAt = 24, kKindAt = 25;
  if (contents.size() <= kKindAt) refuse(path, "not a whole PNG file: it is cut short");
  // libpng takes another chunk before it, whose bytes would not tell how large the image is.
  if (contents.substr(12, 4) != "IHDR") refuse(path, "not a PNG file: it begins with no header");
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(contents.data());
  if (bytes[kDepthAt] == 16) refuse(path, "16 bits a channel; images of 8 are read");
  const int kind = bytes[kKindAt];
  if (labels && kind != PNG_COLOR_TYPE_PALETTE && kind != PNG_COLOR_TYPE_GRAY) {
    refuse(path, "colours; a map of labels has a palette, whose numbers are the labels");
  }
  const int channels = labels ? 1 : 3;
  Image image = make_image(png_get_uint_32(bytes + kHeightAt), png_get_uint_32(bytes + kWidthAt),
                           channels, path);
  std::vector<std::uint8_t*> rows(static_cast<std::size_t>(image.height));
  for (std::size_t y = 0; y < rows.size(); ++y) {
    rows[y] = image.pixels.data() + y * static_cast<std::size_t>(image.width * channels);
  }
  // Palettes and few bits become 8 bits a channel, or numbers of 8 bits.
  const int transforms =
      labels ? PNG_TRANSFORM_PACKING
             : PNG_TRANSFORM_EXPAND | PNG_TRANSFORM_STRIP_ALPHA | PNG_TRANSFORM_GRAY_TO_RGB;
  PngFile file(contents);
  if (!read_png(file, transforms, rows.data())) {
    refuse(path, fmt::format("not a whole PNG file: {}", file.error));
  }
  return image;
}

[[noreturn]] void refuse_format(std::string_view contents, const std::string& path,
                                std::string_view expected) {
  const std::string_view words = foreign_format(contents.substr(0, kHeadBytes));
  refuse(path, contents.empty()
                   ? fmt::format("it is empty; expected {}", expected)
                   : fmt::format("not {}{}{}", expected, words.empty() ? "" : ", but ", words));
}

}  // namespace

Image decode_photograph(std::string_view contents, const std::string& path) {
  if (contents.starts_with(kJpegSignature)) return decode_jpeg(contents, path);
  if (contents.starts_with(kPngSignature)) return decode_png(contents, path, false);
  refuse_format(contents, path, "a JPEG or PNG file");
}

Image decode_label_map(std::string_view contents, const std::string& path) {
  if (contents.starts_with(kPngSignature)) return decode_png(contents, path, true);
  refuse_format(contents, path, "a PNG file");
}

std::string read_image_file(const std::string& path) {
  return read_file(path, {.what = "image ", .most_bytes = kMostFileBytes});
}

}  // namespace ddpbench::data
