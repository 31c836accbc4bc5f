// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Normalisation is one multiplication and one addition a byte, which compilers vectorise on every
// processor. There is no fused multiply-add: it rounds differently, so batches would depend on the
// machine.
#include "datasets/batch_assembler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "datasets/image_view.h"

namespace ddpbench::data {
namespace {

constexpr std::size_t kCacheLineBytes = 64;

void prefetch(const std::uint8_t* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kCacheLineBytes) __builtin_prefetch(bytes + i);
}

// A row of pixels, of which those outside of [first, last) are black.
struct CroppedRow {
  const std::uint8_t* bytes = nullptr;  // of pixel `first`
  std::int64_t first = 0, last = 0;
};

// Writes `width` pixels of `row`, from right to left with `flip`.
void convert_row(const CroppedRow& row, std::int64_t width, bool flip, float factor, float offset,
                 float* out) {
  const std::int64_t count = row.last - row.first;
  if (count < width) std::fill_n(out, width, offset);  // black: 0 * factor + offset
  if (flip) {
    float* const end = out + width - row.first;
    for (std::int64_t x = 0; x < count; ++x) {
      *(end - 1 - x) = static_cast<float>(row.bytes[x]) * factor + offset;
    }
  } else {
    for (std::int64_t x = 0; x < count; ++x) {
      out[row.first + x] = static_cast<float>(row.bytes[x]) * factor + offset;
    }
  }
}

}  // namespace

CropAndFlip draw_crop_and_flip(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  // The sampler's permutation is drawn from (seed, epoch); this is another stream.
  SplitMix64 random(combine_hash(seed, static_cast<std::uint64_t>(epoch)),
                    static_cast<std::uint64_t>(sample));
  const auto offset = [&random] {
    return static_cast<int>(random.below(2 * kCropPadding + 1)) - kCropPadding;
  };
  return {.down = offset(), .right = offset(), .flip = random.below(2) == 1};
}

std::vector<double> for_each_channel(const std::vector<double>& values, std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  if (values.size() == 1) return std::vector<double>(count, values[0]);
  ensure(values.size() == count, "normalisation: {} values for {} channels", values.size(), count);
  return values;
}

BatchAssembler::BatchAssembler(const Split& split, const Normalization& normalization)
    : split_(split) {
  const auto count = static_cast<std::size_t>(split.count);
  ensure(split.stored.size() == count || (split.images.size() == count * split.sample_bytes &&
                                          split.labels.size() == count * split.labels_per_sample),
         "a split of {} samples of {} bytes has {} bytes of images and {} labels", split.count,
         split.sample_bytes, split.images.size(), split.labels.size());
  ensure(split.channels > 0 && split.sample_bytes % static_cast<std::size_t>(split.channels) == 0,
         "samples of {} bytes in {} channels", split.sample_bytes, split.channels);
  const std::vector<double> means = for_each_channel(normalization.mean, split.channels);
  const std::vector<double> deviations = for_each_channel(normalization.std, split.channels);
  for (std::size_t c = 0; c < means.size(); ++c) {
    ensure(deviations[c] > 0, "normalisation: a standard deviation of {}", deviations[c]);
    // (byte / 255 - mean) / std = byte * factor + offset
    scales_.push_back({static_cast<float>(1 / (255 * deviations[c])),
                       static_cast<float>(-means[c] / deviations[c])});
  }
}

void BatchAssembler::convert(std::int64_t index, const CropAndFlip& change, float* image) const {
  const std::uint8_t* channel =
      split_.images.data() + static_cast<std::size_t>(index) * split_.sample_bytes;
  const auto channel_bytes = static_cast<std::int64_t>(split_.sample_bytes / scales_.size());
  // A channel that is not changed is one long row.
  const std::int64_t width = change == CropAndFlip{} ? channel_bytes : split_.width;
  const std::int64_t height = channel_bytes / width;
  const std::int64_t first = std::clamp<std::int64_t>(-change.right, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(width - change.right, first, width);
  for (const Scale& scale : scales_) {
    for (std::int64_t y = 0; y < height; ++y, image += width) {
      const std::int64_t from = y + change.down;
      CroppedRow row;
      if (from >= 0 && from < height && last > first) {
        row = {channel + from * width + first + change.right, first, last};
      }
      convert_row(row, width, change.flip, scale.factor, scale.offset, image);
    }
    channel += channel_bytes;
  }
}

// A sample of a stored image.
void BatchAssembler::cut(std::int64_t index, const BatchAugmentation* augmentation, float* image,
                         std::int32_t* labels) const {
  const StoredImage& stored = split_.stored[static_cast<std::size_t>(index)];
  const ImageView view = view_of_sample(split_, index, augmentation);
  const std::int64_t width = view.x.size, step = view.flip ? -1 : 1;
  const std::int64_t pixels = view.y.size * width;
  const std::int64_t first = view.flip ? width - 1 - view.x.first : view.x.first;
  std::fill_n(image, split_.sample_bytes, 0.0F);  // what the mean becomes
  resample(split_.images.data() + stored.offset, stored.width, view,
           [&](std::int64_t y, std::span<const float> row) {
             for (std::size_t c = 0; c < scales_.size(); ++c) {
               float* out = image + static_cast<std::int64_t>(c) * pixels + y * width + first;
               for (std::size_t i = c; i < row.size(); i += scales_.size(), out += step) {
                 *out = row[i] * scales_[c].factor + scales_[c].offset;
               }
             }
           });
  if (split_.has_maps) view_labels(split_, index, view, labels);
  if (!split_.has_maps) *labels = split_.labels[static_cast<std::size_t>(index)];
}

void BatchAssembler::gather(std::span<const std::int64_t> indices, float* images,
                            std::int32_t* labels, const BatchAugmentation* augmentation) const {
  ensure(augmentation == nullptr || split_.width > 0, "images of unknown width are to be cropped");
  for (std::size_t i = 0; i < indices.size(); ++i) {
    ensure(indices[i] >= 0 && indices[i] < split_.count, "sample {} of {}", indices[i],
           split_.count);
    if (!split_.stored.empty()) {
      cut(indices[i], augmentation, images + i * split_.sample_bytes,
          labels + i * split_.labels_per_sample);
      continue;
    }
    // Samples are drawn at random from tens of megabytes, so the next one is prefetched meanwhile.
    if (i + 1 < indices.size()) {
      prefetch(
          split_.images.data() + static_cast<std::size_t>(indices[i + 1]) * split_.sample_bytes,
          split_.sample_bytes);
    }
    float* const image = images + i * split_.sample_bytes;
    const CropAndFlip change =
        augmentation == nullptr
            ? CropAndFlip{}
            : draw_crop_and_flip(augmentation->seed, augmentation->epoch, indices[i]);
    convert(indices[i], change, image);
    const std::size_t count = split_.labels_per_sample;
    std::ranges::copy(split_.labels.subspan(static_cast<std::size_t>(indices[i]) * count, count),
                      labels + i * count);
  }
}

void assemble_range(const Split& split, const Normalization& normalization, std::int64_t first,
                    std::int64_t count, const BatchBuffer& out) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  BatchAssembler(split, normalization).gather(indices, out.images, out.labels);
}

}  // namespace ddpbench::data
