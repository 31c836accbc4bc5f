// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// synthetic_bytes CHANNELS HEIGHT WIDTH CLASSES SEED FIRST COUNT [ROWS COLUMNS [IGNORED]]: writes
// these synthetic images, for each its labels in two bytes each, the lower first, and its pixels.
// ROWS and COLUMNS: of a map of labels.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "datasets/synthetic.h"

int main(int argc, char** argv) {
  if (argc != 8 && argc != 10 && argc != 11) return 2;
  const auto number = [argv](int i) { return std::strtoull(argv[i], nullptr, 10); };
  ddpbench::data::SyntheticRequest request{.info = {}, .seed = number(5)};
  request.info.channels = static_cast<std::int64_t>(number(1));
  request.info.height = static_cast<std::int64_t>(number(2));
  request.info.width = static_cast<std::int64_t>(number(3));
  request.info.classes = static_cast<int>(number(4));
  const bool has_map = argc > 8;
  if (has_map) {
    request.info.label_height = static_cast<std::int64_t>(number(8));
    request.info.label_width = static_cast<std::int64_t>(number(9));
  }
  if (argc > 10) request.ignored_label = static_cast<int>(number(10));
  std::vector<std::uint8_t> image(number(1) * number(2) * number(3));
  std::vector<std::uint16_t> labels(has_map ? number(8) * number(9) : 1);
  for (std::uint64_t i = number(6); i < number(6) + number(7); ++i) {
    if (has_map) {
      ddpbench::data::draw_map(request, i, image, labels);
    } else {
      labels[0] = ddpbench::data::draw_image(request, i, image);
    }
    for (const std::uint16_t label : labels) {
      std::putchar(label & 0xff);
      std::putchar(label >> 8);
    }
    if (std::fwrite(image.data(), 1, image.size(), stdout) != image.size()) return 1;
  }
  return 0;
}
