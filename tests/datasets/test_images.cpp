// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/datasets/test_images.h"

#include <png.h>
#include <turbojpeg.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace ddpbench::data {

std::string jpeg_file(int height, int width, std::span<const std::uint8_t> pixels, int channels) {
  const std::unique_ptr<void, decltype(&tjDestroy)> handle(tjInitCompress(), &tjDestroy);
  const int format = channels == 1 ? TJPF_GRAY : channels == 3 ? TJPF_RGB : TJPF_CMYK;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const int status = tjCompress2(handle.get(), pixels.data(), width, 0, height, format, &bytes,
                                 &size, channels == 1 ? TJSAMP_GRAY : TJSAMP_444, 95, 0);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  if (status != 0) throw std::runtime_error(tjGetErrorStr2(handle.get()));
  return file;
}

std::uint8_t palette_colour(int i, int channel) {
  return static_cast<std::uint8_t>(i * (7 + channel) + 40 * channel);
}

std::string png_file(int height, int width, std::span<const std::uint8_t> pixels, PngKind kind) {
  std::array<png_byte, 3 * 256> palette{};
  for (int i = 0; i < 256; ++i) {
    for (int c = 0; c < 3; ++c) palette[static_cast<std::size_t>(3 * i + c)] = palette_colour(i, c);
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = kind == PngKind::grey      ? PNG_FORMAT_GRAY
                 : kind == PngKind::rgb     ? PNG_FORMAT_RGB
                 : kind == PngKind::rgba    ? PNG_FORMAT_RGBA
                 : kind == PngKind::palette ? PNG_FORMAT_RGB_COLORMAP
                                            : PNG_FORMAT_LINEAR_Y;
  image.colormap_entries = 256;
  png_alloc_size_t bytes = 0;
  png_image_write_to_memory(&image, nullptr, &bytes, 0, pixels.data(), 0, palette.data());
  std::string file(bytes, '\0');
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data(), 0, palette.data()) ==
      0) {
    throw std::runtime_error(image.message);
  }
  file.resize(bytes);
  return file;
}

void make_voc(const std::function<void(const std::string&, const std::string&)>& put) {
  std::string names;
  for (int i = 0; i < 6; ++i) {
    const std::string name = "image" + std::to_string(i);
    const int height = 18 + i, width = 30 - i;
    std::vector<std::uint8_t> pixels, labels;
    for (int at = 0; at < height * width; ++at) {
      const bool left = at % width < 10;
      labels.push_back(at % width == 10 ? 255 : left ? 1 : 0);
      pixels.insert(pixels.end(), {static_cast<std::uint8_t>(left ? 220 : 30), 90, 90});
    }
    put("JPEGImages/" + name + ".jpg", jpeg_file(height, width, pixels, 3));
    put("SegmentationClass/" + name + ".png", png_file(height, width, labels, PngKind::palette));
    names += name + "\n";
  }
  put("ImageSets/Segmentation/train.txt", names);
  put("ImageSets/Segmentation/val.txt", names);
}

}  // namespace ddpbench::data
