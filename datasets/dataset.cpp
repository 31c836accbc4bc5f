// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The layout of decoded data sets.
#include "datasets/dataset.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <future>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::data {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line

std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

struct Part {
  std::size_t offset = 0, bytes = 0;
};

// Fills in the splits of images that keep their own sizes.
void view_stored(std::span<const std::byte> decoded, Dataset& dataset) {
  StoreEnd end;
  ensure(decoded.size() >= sizeof(end), "{} bytes of decoded images", decoded.size());
  std::memcpy(&end, decoded.last(sizeof(end)).data(), sizeof(end));
  const std::size_t count = end.train + end.test;
  ensure(end.labels + count * sizeof(std::uint16_t) <= decoded.size() &&
             end.table + count * sizeof(StoredImage) <= decoded.size(),
         "decoded images of {} bytes are damaged", decoded.size());
  const auto* const table = reinterpret_cast<const StoredImage*>(decoded.data() + end.table);
  const auto* const labels = reinterpret_cast<const std::uint16_t*>(decoded.data() + end.labels);
  for (Split* const split : {&dataset.train, &dataset.test}) {
    const std::size_t first = split == &dataset.train ? 0 : end.train;
    const std::size_t images = split == &dataset.train ? end.train : end.test;
    split->images = {reinterpret_cast<const std::uint8_t*>(decoded.data()), decoded.size()};
    split->stored = {table + first, images};
    split->has_maps = end.has_maps != 0;
    if (!split->has_maps) split->labels = {labels + first, images};
  }
}

std::array<Part, 4> layout(const DatasetInfo& info) {
  const auto train = static_cast<std::size_t>(info.train_samples);
  const auto test = static_cast<std::size_t>(info.test_samples);
  const std::size_t labels =
      static_cast<std::size_t>(info.labels_per_sample()) * sizeof(std::uint16_t);
  const std::array<std::size_t, 4> sizes = {train * info.sample_bytes(), train * labels,
                                            test * info.sample_bytes(), test * labels};
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
  if (own_sizes) return stored_bytes;
  const Part last = layout(*this).back();
  return last.offset + aligned(last.bytes);
}

DecodedParts decoded_parts(const DatasetInfo& info, std::span<std::byte> out) {
  ensure(out.size() == info.decoded_bytes(), "data set {}: {} bytes of room for {}", info.name,
         out.size(), info.decoded_bytes());
  const std::array<Part, 4> parts = layout(info);
  for (const Part& part : parts) {
    const std::size_t gap = aligned(part.bytes) - part.bytes;
    std::ranges::fill(out.subspan(part.offset + part.bytes, gap), std::byte{0});
  }
  const auto split = [&](const Part& images, const Part& labels) -> SplitMemory {
    return {{reinterpret_cast<std::uint8_t*>(out.data() + images.offset), images.bytes},
            {reinterpret_cast<std::uint16_t*>(out.data() + labels.offset),
             labels.bytes / sizeof(std::uint16_t)}};
  };
  return {split(parts[0], parts[1]), split(parts[2], parts[3])};
}

Dataset Dataset::view(const DatasetInfo& info, std::span<const std::byte> decoded) {
  ensure(info.own_sizes || decoded.size() == info.decoded_bytes(),
         "data set {}: {} decoded bytes, expected {}", info.name, decoded.size(),
         info.decoded_bytes());
  const std::array<Part, 4> parts = layout(info);
  const auto split = [&](const Part& images, const Part& labels, std::int64_t count) -> Split {
    Split view{.count = count,
               .sample_bytes = info.sample_bytes(),
               .channels = info.channels,
               .width = info.width,
               .labels_per_sample = static_cast<std::size_t>(info.labels_per_sample())};
    if (info.own_sizes) return view;
    view.images = {reinterpret_cast<const std::uint8_t*>(decoded.data() + images.offset),
                   images.bytes};
    view.labels = {reinterpret_cast<const std::uint16_t*>(decoded.data() + labels.offset),
                   labels.bytes / sizeof(std::uint16_t)};
    return view;
  };
  Dataset dataset{.info = info,
                  .train = split(parts[0], parts[1], info.train_samples),
                  .test = split(parts[2], parts[3], info.test_samples)};
  if (info.own_sizes) view_stored(decoded, dataset);
  return dataset;
}

void Dataset::check_labels(std::int32_t ignored) const {
  for (const Split* split : {&train, &test}) {
    const auto bad = std::ranges::find_if(split->labels, [&](std::uint16_t label) {
      return label >= info.classes && label != ignored;
    });
    if (bad == split->labels.end()) continue;
    const auto record = static_cast<std::size_t>(bad - split->labels.begin());
    throw ConfigError(
        fmt::format("{}: record {} of the {} set has the label {}; labels are 0 to {}", info.name,
                    record / split->labels_per_sample, split == &train ? "training" : "test", *bad,
                    info.classes - 1));
  }
}

void in_threads(std::size_t count, std::size_t least,
                const std::function<void(std::size_t)>& action) {
  // More are of no use, and a container's share of time may be smaller than its number of cores.
  constexpr std::size_t kMostThreads = 16;
  cpu_set_t cores;  // that this thread may run on; the call fails for more than a set can hold
  const bool known = ::sched_getaffinity(0, sizeof(cores), &cores) == 0;
  const auto usable = static_cast<std::size_t>(known ? std::max(1, CPU_COUNT(&cores)) : 1);
  const std::size_t threads =
      std::clamp<std::size_t>(count / least, 1, std::min(usable, kMostThreads));
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t first; (first = next.fetch_add(least)) < count;) {
      for (std::size_t i = first; i < std::min(count, first + least); ++i) action(i);
    }
  };
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.push_back(std::async(std::launch::async, work));
  }
  work();
  for (std::future<void>& other : others) other.get();
}

}  // namespace ddpbench::data
