// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "datasets/readers.h"
#include "tests/fuzz/entries.h"

namespace ddpbench::fuzz {
namespace {

constexpr const char* kName = "input.png";

bool decodes(const std::string& input, data::Image (*decode)(std::string_view, const std::string&),
             std::int64_t channels) {
  try {
    const data::Image image = decode(input, kName);
    ensure(image.height * image.width * channels == std::ssize(image.pixels),
           "{} x {} pixels in {} bytes", image.height, image.width, image.pixels.size());
    return true;
  } catch (const ConfigError& error) {
    ensure(std::string_view(error.what()).starts_with(kName), "no file: {}", error.what());
    return false;
  }
}

}  // namespace

bool image_entry(const std::string& input) {
  const bool photograph = decodes(input, &data::decode_photograph, 3);
  const bool map = decodes(input, &data::decode_label_map, 1);
  return photograph || map;
}

}  // namespace ddpbench::fuzz
