// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Data sets of images, decoded once per host into bytes that all ranks map, and what the program
// knows of each (CatalogEntry).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace ddpbench::data {

// The most classes that a data set may have: labels are 16 bits wide.
inline constexpr int kMostClasses = 1 << 16;

// Describes a data set, before and after decoding.
struct DatasetInfo {
  std::string name;       // "mnist"
  std::string source;     // "files" or "synthetic"
  std::string directory;  // where the files are; empty when synthetic
  std::int64_t train_samples = 0, test_samples = 0;
  std::int64_t channels = 1, height = 0, width = 0;
  int classes = 0;  // at most kMostClasses
  // A label for each place of a map of this size; 1 x 1: one for the image.
  std::int64_t label_height = 1, label_width = 1;
  // What people should know of it: "4000 of the 50000 training samples that were published".
  std::string note = {};
  // Images keep sizes of their own (StoredImage), and samples are cut from them, of the size above.
  // They take so many bytes, which open_decoded() sets.
  bool own_sizes = false;
  std::uint64_t stored_bytes = 0;
  std::size_t sample_bytes() const { return static_cast<std::size_t>(channels * height * width); }
  std::int64_t labels_per_sample() const { return label_height * label_width; }
  // Sums the bytes of images and labels for training and testing, each part 64-byte aligned, or
  // returns stored_bytes.
  std::size_t decoded_bytes() const;
};

// The label of a pixel that has no class, as in PASCAL VOC's maps, and of padding.
inline constexpr std::int32_t kVoidLabel = 255;

// An image of its own size: [height, width, 3] bytes, and behind them its map, if it has one.
struct StoredImage {
  std::uint64_t offset = 0;
  std::uint32_t height = 0, width = 0;
};

// The end of decoded images of own sizes: where the StoredImage and the labels of each are, of
// those to train and then to test.
struct StoreEnd {
  std::uint64_t key = 0;                // of the files that they were decoded from
  std::uint64_t table = 0, labels = 0;  // offsets
  std::uint64_t train = 0, test = 0, has_maps = 0;
};

// Returns how many of the decoded bytes are equal wherever the files are; the key has their
// times and paths.
inline std::size_t content_bytes(const DatasetInfo& info, std::size_t decoded) {
  return info.own_sizes ? decoded - sizeof(StoreEnd) : decoded;
}

// One split, as views of decoded memory.
struct Split {
  std::span<const std::uint8_t> images;   // [count, channels, height, width]
  std::span<const std::uint16_t> labels;  // [count, labels_per_sample]
  std::int64_t count = 0;
  std::size_t sample_bytes = 0;
  std::int64_t channels = 1;  // divides sample_bytes
  std::int64_t width = 0;     // pixels of a row; 0: unknown, such images cannot be augmented
  std::size_t labels_per_sample = 1;
  // Where images keep their own sizes, `images` has them and their maps as StoredImage says, and
  // `labels` one an image, or none with maps.
  std::span<const StoredImage> stored = {};
  bool has_maps = false;
  // [height, width] labels. REQUIRES: has_maps.
  const std::uint8_t* map_of(std::int64_t index) const {
    const StoredImage& image = stored[static_cast<std::size_t>(index)];
    return images.data() + image.offset + std::size_t{3} * image.height * image.width;
  }
};

// What the crops and flips of a batch are drawn from, beside its samples.
struct BatchAugmentation {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
};

// Stands for "no label is ignored", because no label is negative.
inline constexpr std::int32_t kNoLabel = -1;

// Views of `decoded`, which has info.decoded_bytes() filled by a DatasetSource. Does not own it.
struct Dataset {
  DatasetInfo info;
  Split train, test;
  static Dataset view(const DatasetInfo& info, std::span<const std::byte> decoded);
  // Throws ConfigError that names the first label that is neither in [0, classes) nor `ignored`.
  void check_labels(std::int32_t ignored = kNoLabel) const;
};

// Hears how many images of how many are decoded, into which file; 0 of 0: another process decodes
// them, and this one waits. May throw to end it.
using DecodeProgress = std::function<void(std::int64_t, std::int64_t, const std::string&)>;

// The origin of a data set: files or a generator.
class DatasetSource {
 public:
  virtual ~DatasetSource() = default;
  virtual const DatasetInfo& info() const = 0;
  // Where images keep their own sizes, takes that of samples and the folder of decoded images.
  virtual void adapt(std::int64_t /*height*/, std::int64_t /*width*/, const std::string&) {}
  // Where images keep their own sizes, decodes them into a file of the cache unless they are there,
  // and returns that file, even when another has its name by then; else none. Throws as decode()
  // does, and leaves the older file then.
  virtual FileDescriptor open_decoded(const DecodeProgress&) { return {}; }
  // Fills `out` (exactly info().decoded_bytes()), unless open_decoded() gives a file. Throws
  // ConfigError naming file, offset, expected and found; `out` must not be used then.
  virtual void decode(std::span<std::byte> /*out*/) {}
};

// One split of decoded memory, to be filled.
struct SplitMemory {
  std::span<std::uint8_t> images;   // [count, channels, height, width]
  std::span<std::uint16_t> labels;  // [count, labels_per_sample]
};
struct DecodedParts {
  SplitMemory train, test;
};

// The parts of `out` (info.decoded_bytes() bytes, 64-byte aligned), for a DatasetSource to fill.
// Sets the gaps between them to zero, so that equal data sets have equal bytes.
DecodedParts decoded_parts(const DatasetInfo& info, std::span<std::byte> out);

// Calls `action` with each number below `count`, from several threads at once, each of which takes
// `least` numbers at a time. Rethrows an exception of one.
void in_threads(std::size_t count, std::size_t least,
                const std::function<void(std::size_t)>& action);

// Size and SHA-256 (lower-case hexadecimal) of a file.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::string_view sha256;
};

// A file under the name of its download; of one that is not downloaded no print is known.
struct CatalogFile {
  std::string name;
  Fingerprint print = {};
};

// What a generator is asked for.
struct SyntheticRequest {
  DatasetInfo info;  // numbers of samples that are 0 the generator chooses
  std::uint64_t seed = 1;
  std::int32_t ignored_label = kNoLabel;  // of maps: what lies between two classes
};

struct CatalogEntry {
  std::string_view name;
  std::string_view base_url;  // ends with '/'; empty: not downloaded by this program
  std::vector<CatalogFile> files;
  // The folder of an archive, the only file, that is unpacked to the same place after the download.
  std::string_view unpacks_to = {};
  std::vector<std::string_view> folders = {};  // beside <name>/, as others lay the files down
  std::vector<std::string> signs = {};         // names that show where files of it lie
  // As published. All are 0 for a data set that takes its network's images and classes; height and
  // width for images that are cut to the network's size.
  std::int64_t channels = 0, height = 0, width = 0;
  int classes = 0;
  std::int64_t train_samples = 0, test_samples = 0;
  // They are of the training images' bytes / 255: one for all channels, or one a channel.
  std::vector<double> mean, deviation;
  // Makes the source for the files in one of places_of() and reads only headers; null when none is
  // there. Throws ConfigError when some are missing, damaged or do not fit together. Is null for a
  // data set that is always generated.
  std::unique_ptr<DatasetSource> (*open)(const CatalogEntry& entry,
                                         const std::string& directory) = nullptr;
  // Makes a generator that can stand in for the files; null where there is none.
  std::unique_ptr<DatasetSource> (*synthesize)(const SyntheticRequest& request) = nullptr;
  std::string_view synthesizes;      // what that generator draws: "digits"
  std::string_view how_to_get = {};  // where this program does not download it

  bool takes_any_shape() const { return channels == 0; }
  bool takes_any_size() const { return height == 0; }
};

}  // namespace ddpbench::data
