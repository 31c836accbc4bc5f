// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The layout of decoded data sets.
#include "datasets/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::data {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line

std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

struct Part {
  std::size_t offset = 0, bytes = 0;
};

std::array<Part, 4> layout(const DatasetInfo& info) {
  const auto train = static_cast<std::size_t>(info.train_samples);
  const auto test = static_cast<std::size_t>(info.test_samples);
  const std::array<std::size_t, 4> sizes = {train * info.sample_bytes(), train,
                                            test * info.sample_bytes(), test};
  std::array<Part, 4> parts;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = {offset, sizes[i]};
    offset += aligned(sizes[i]);
  }
  return parts;
}

}  // namespace

std::size_t DatasetInfo::decoded_bytes() const {
  const Part last = layout(*this).back();
  return last.offset + aligned(last.bytes);
}

std::array<std::span<std::uint8_t>, 4> decoded_parts(const DatasetInfo& info,
                                                     std::span<std::byte> out) {
  ensure(out.size() == info.decoded_bytes(), "data set {}: {} bytes of room for {}", info.name,
         out.size(), info.decoded_bytes());
  std::array<std::span<std::uint8_t>, 4> views;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Part part = layout(info)[i];
    views[i] = {reinterpret_cast<std::uint8_t*>(out.data()) + part.offset, part.bytes};
    const std::size_t gap = aligned(part.bytes) - part.bytes;
    std::ranges::fill(out.subspan(part.offset + part.bytes, gap), std::byte{0});
  }
  return views;
}

Dataset Dataset::view(const DatasetInfo& info, std::span<const std::byte> decoded) {
  ensure(decoded.size() == info.decoded_bytes(), "data set {}: {} decoded bytes, expected {}",
         info.name, decoded.size(), info.decoded_bytes());
  const std::array<Part, 4> parts = layout(info);
  const auto bytes_of = [&](std::size_t i) -> std::span<const std::uint8_t> {
    return {reinterpret_cast<const std::uint8_t*>(decoded.data()) + parts[i].offset,
            parts[i].bytes};
  };
  return {.info = info,
          .train = {bytes_of(0), bytes_of(1), info.train_samples, info.sample_bytes()},
          .test = {bytes_of(2), bytes_of(3), info.test_samples, info.sample_bytes()}};
}

void Dataset::check_labels() const {
  for (const Split* split : {&train, &test}) {
    const auto bad = std::ranges::find_if(
        split->labels, [&](std::uint8_t label) { return label >= info.classes; });
    if (bad == split->labels.end()) continue;
    throw ConfigError(
        fmt::format("{}: record {} of the {} set has the label {}; labels are 0 to {}", info.name,
                    bad - split->labels.begin(), split == &train ? "training" : "test", *bad,
                    info.classes - 1));
  }
}

}  // namespace ddpbench::data
