// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program knows of each data set, and a function that opens one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"

namespace ddpbench::data {

// Size and SHA-256 (lower-case hexadecimal) of a file.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::string_view sha256;
};

// A file of a data set. It is published as `<name>.gz` and used in either form. Without `packed` it
// is published as `<name>` only.
struct CatalogFile {
  std::string_view name;
  Fingerprint packed;    // <name>.gz
  Fingerprint unpacked;  // <name>
  bool has_packed() const { return packed.bytes > 0; }
};

// What a generator is asked for.
struct SyntheticRequest {
  std::string name;  // of the data set
  std::uint64_t seed = 1;
  std::int64_t channels = 1, height = 0, width = 0;
  int classes = 0;
  std::int64_t label_height = 1, label_width = 1;    // as in DatasetInfo
  std::int32_t ignored_label = kNoLabel;             // of maps: what lies between two classes
  std::int64_t train_samples = 0, test_samples = 0;  // 0: the generator chooses
};

struct CatalogEntry {
  std::string_view name;
  std::string_view base_url;  // ends with '/'; empty: nothing is published
  std::vector<CatalogFile> files;
  // As published. All are 0 for a data set that takes its network's images and classes.
  std::int64_t channels = 0, height = 0, width = 0;
  int classes = 0;
  std::int64_t train_samples = 0, test_samples = 0;
  // They are of the training images' bytes / 255: one for all channels, or one a channel.
  std::vector<double> mean, deviation;
  // Makes the source for the files in `directory`/<name>/ and reads only headers. Null when none of
  // the files is there. Throws ConfigError when some are missing, damaged or do not fit together.
  // Null for a data set that is always generated.
  std::unique_ptr<DatasetSource> (*open)(const CatalogEntry& entry,
                                         const std::string& directory) = nullptr;
  // Makes a generator that can stand in for the files; null where there is none.
  std::unique_ptr<DatasetSource> (*synthesize)(const SyntheticRequest& request) = nullptr;
  std::string_view synthesizes;  // what that generator draws: "digits"

  bool takes_any_shape() const { return channels == 0; }
};

std::span<const CatalogEntry> catalog();

// Throws ConfigError for an unknown name; the message names the nearest known one and all of them.
const CatalogEntry& find_in_catalog(std::string_view name);

// The data set that takes the shape and the classes of any network.
inline constexpr std::string_view kSyntheticName = "synthetic";

// Whether a network that takes images of this shape and has `outputs` outputs for each image can be
// trained on the data set.
bool fits(const CatalogEntry& entry, std::int64_t channels, std::int64_t height, std::int64_t width,
          std::int64_t outputs);

struct DatasetRequest {
  std::string name = "mnist";
  std::vector<std::string> directories;  // searched in order for <dir>/<name>/
  bool synthesize_when_missing = false;  // "on_missing": "synthesize"; else a ConfigError says
                                         // where it looked and how to fetch
  std::uint64_t seed = 1;                // of the synthetic data
  // What `synthetic` adapts to, as DatasetInfo has it; other data sets ignore these. The network's
  // loss ignores `ignored_label`.
  std::int64_t channels = 1, height = 0, width = 0;
  int classes = 0;
  std::int64_t label_height = 1, label_width = 1;
  std::int32_t ignored_label = kNoLabel;
};

// Throws ConfigError for an unknown name (naming the nearest known one), for missing files, and for
// damaged files. Damaged files never make it fall back to synthetic data.
std::unique_ptr<DatasetSource> open_dataset(const DatasetRequest& request);

std::vector<std::string> known_datasets();
// Those that consist of files, which can be fetched.
std::vector<std::string> published_datasets();

}  // namespace ddpbench::data
