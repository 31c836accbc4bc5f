// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Normalisation is one multiplication and one addition a byte, which compilers vectorise on every
// processor. There is no fused multiply-add: it rounds differently, so batches would depend on the
// machine.
#include "datasets/batch_assembler.h"

#include "base/error.h"

namespace ddpbench::data {
namespace {

constexpr std::size_t kCacheLineBytes = 64;

void prefetch(const std::uint8_t* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kCacheLineBytes) __builtin_prefetch(bytes + i);
}

}  // namespace

BatchAssembler::BatchAssembler(const Split& split, const Normalization& normalization)
    : split_(split) {
  ensure(split.images.size() == static_cast<std::size_t>(split.count) * split.sample_bytes &&
             split.labels.size() == static_cast<std::size_t>(split.count),
         "a split of {} samples of {} bytes has {} bytes of images and {} labels", split.count,
         split.sample_bytes, split.images.size(), split.labels.size());
  if (!(normalization.std > 0)) {
    throw ConfigError(fmt::format("normalisation: a standard deviation of {}; expected more than 0",
                                  normalization.std));
  }
  // (byte / 255 - mean) / std = byte * scale + offset
  scale_ = static_cast<float>(1 / (255 * normalization.std));
  offset_ = static_cast<float>(-normalization.mean / normalization.std);
}

void BatchAssembler::convert(std::int64_t index, float* image) const {
  const std::uint8_t* bytes =
      split_.images.data() + static_cast<std::size_t>(index) * split_.sample_bytes;
  const float scale = scale_, offset = offset_;
  for (std::size_t i = 0; i < split_.sample_bytes; ++i) {
    image[i] = static_cast<float>(bytes[i]) * scale + offset;
  }
}

void BatchAssembler::gather(std::span<const std::int64_t> indices, float* images,
                            std::int32_t* labels) const {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    ensure(indices[i] >= 0 && indices[i] < split_.count, "sample {} of {}", indices[i],
           split_.count);
    // Samples are drawn at random from tens of megabytes, so the next one is prefetched meanwhile.
    if (i + 1 < indices.size()) {
      prefetch(
          split_.images.data() + static_cast<std::size_t>(indices[i + 1]) * split_.sample_bytes,
          split_.sample_bytes);
    }
    convert(indices[i], images + i * split_.sample_bytes);
    labels[i] = split_.labels[static_cast<std::size_t>(indices[i])];
  }
}

void BatchAssembler::gather_range(std::int64_t first, std::int64_t count,
                                  const BatchBuffer& out) const {
  ensure(first >= 0 && count >= 0 && count <= split_.count - first, "samples {} to {} of {}", first,
         first + count, split_.count);
  for (std::int64_t i = 0; i < count; ++i) {
    convert(first + i, out.images + static_cast<std::size_t>(i) * split_.sample_bytes);
    out.labels[i] = split_.labels[static_cast<std::size_t>(first + i)];
  }
}

void assemble_range(const Split& split, const Normalization& normalization, std::int64_t first,
                    std::int64_t count, const BatchBuffer& out) {
  BatchAssembler(split, normalization).gather_range(first, count, out);
}

}  // namespace ddpbench::data
