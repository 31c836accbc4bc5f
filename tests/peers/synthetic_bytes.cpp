// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// synthetic_bytes CHANNELS HEIGHT WIDTH CLASSES SEED FIRST COUNT: writes these synthetic images,
// for each its label in two bytes, the lower first, and its pixels.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "datasets/synthetic_images.h"

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  const auto number = [argv](int i) { return std::strtoull(argv[i], nullptr, 10); };
  const ddpbench::data::SyntheticRequest request = {
      .name = "synthetic",
      .seed = number(5),
      .channels = static_cast<std::int64_t>(number(1)),
      .height = static_cast<std::int64_t>(number(2)),
      .width = static_cast<std::int64_t>(number(3)),
      .classes = static_cast<int>(number(4))};
  std::vector<std::uint8_t> image(number(1) * number(2) * number(3));
  for (std::uint64_t i = number(6); i < number(6) + number(7); ++i) {
    const std::uint16_t label = ddpbench::data::draw_image(request, i, image);
    std::putchar(label & 0xff);
    std::putchar(label >> 8);
    if (std::fwrite(image.data(), 1, image.size(), stdout) != image.size()) return 1;
  }
  return 0;
}
