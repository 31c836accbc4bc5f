// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Image classification data sets, decoded once per host into bytes that all ranks map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddpbench::data {

// What a data set is, before and after decoding.
struct DatasetInfo {
  std::string name;       // "mnist"
  std::string source;     // "files" or "synthetic"
  std::string directory;  // of the files; empty when synthetic
  std::int64_t train_samples = 0, test_samples = 0;
  std::int64_t channels = 1, height = 0, width = 0;
  int classes = 0;
  std::size_t sample_bytes() const { return static_cast<std::size_t>(channels * height * width); }
  // Of the decoded form: train images, train labels, test images, test labels, each 64-byte
  // aligned.
  std::size_t decoded_bytes() const;
};

// One split, as views of decoded memory.
struct Split {
  std::span<const std::uint8_t> images;  // [count, channels, height, width]
  std::span<const std::uint8_t> labels;  // [count]
  std::int64_t count = 0;
  std::size_t sample_bytes = 0;
};

// Views of `decoded` (info.decoded_bytes() that a DatasetSource filled). Does not own it.
struct Dataset {
  DatasetInfo info;
  Split train, test;
  static Dataset view(const DatasetInfo& info, std::span<const std::byte> decoded);
};

// Somewhere that a data set comes from: files or a generator.
class DatasetSource {
 public:
  virtual ~DatasetSource() = default;
  virtual const DatasetInfo& info() const = 0;
  // Fills `out` (exactly info().decoded_bytes()). Throws ConfigError naming file, offset, expected
  // and found; then `out` must not be used.
  virtual void decode(std::span<std::byte> out) = 0;
};

struct DatasetRequest {
  std::string name = "mnist";
  std::vector<std::string> directories;  // searched in order for <dir>/<name>/
  bool synthesize_when_missing = false;  // "on_missing": "synthesize"; else ConfigError that says
                                         // where it looked and how to fetch
  std::uint64_t seed = 1;                // of the synthetic data
};

// Throws ConfigError for an unknown name (naming the nearest known one), for missing files, and for
// files that are there but damaged (never falls back to synthetic data then).
std::unique_ptr<DatasetSource> open_dataset(const DatasetRequest& request);

std::vector<std::string> known_datasets();

}  // namespace ddpbench::data
