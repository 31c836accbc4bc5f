// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How fast photographs are decoded on one core, against a plain loop over libjpeg-turbo:
//
//   image_decode_bench FILE.jpg...
//
// Both read the files and decode them into memory, in turn; the best of several rounds counts, in
// processor time. The last column is what resizing them for a crop of 224 costs in addition.
#include <fmt/format.h>
#include <turbojpeg.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "datasets/image_view.h"
#include "datasets/readers.h"

namespace {

using namespace ddpbench;

constexpr int kRounds = 15;

double plain_loop(const std::vector<std::string>& paths, std::vector<unsigned char>& pixels) {
  const double begin_s = thread_cpu_s();
  const tjhandle handle = tjInitDecompress();
  for (const std::string& path : paths) {
    const std::string file = read_file(path, {.what = "", .most_bytes = std::size_t{1} << 30});
    const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
    int width = 0, height = 0, sampling = 0, space = 0;
    tjDecompressHeader3(handle, bytes, file.size(), &width, &height, &sampling, &space);
    pixels.resize(static_cast<std::size_t>(3 * width * height));
    tjDecompress2(handle, bytes, file.size(), pixels.data(), width, 0, height, TJPF_RGB, 0);
  }
  tjDestroy(handle);
  return thread_cpu_s() - begin_s;
}

double own(const std::vector<std::string>& paths, bool resizes) {
  const double begin_s = thread_cpu_s();
  for (const std::string& path : paths) {
    const data::Image image = data::decode_photograph(data::read_image_file(path), path);
    if (!resizes) continue;
    const double factor = 256 / static_cast<double>(std::min(image.height, image.width));
    float sum = 0;
    data::resample(
        image.pixels.data(), image.width,
        data::resized_view(image.height, image.width,
                           static_cast<std::int64_t>(factor * static_cast<double>(image.height)),
                           static_cast<std::int64_t>(factor * static_cast<double>(image.width))),
        [&](std::int64_t, std::span<const float> row) { sum += row[0]; });
    if (sum < 0) return 0;
  }
  return thread_cpu_s() - begin_s;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) return 2;
  std::vector<unsigned char> pixels;
  double plain_s = 1e9, own_s = 1e9, resized_s = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    plain_s = std::min(plain_s, plain_loop(paths, pixels));
    own_s = std::min(own_s, own(paths, false));
    resized_s = std::min(resized_s, own(paths, true));
  }
  const auto rate = [&](double seconds) { return static_cast<double>(paths.size()) / seconds; };
  fmt::print("plain loop {:.1f} images/s, own {:.1f} ({:.3f} of it), resized {:.1f}\n",
             rate(plain_s), rate(own_s), plain_s / own_s, rate(resized_s));
  return 0;
}
