// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The known data sets, and a function that opens one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"

namespace ddpbench::data {

std::span<const CatalogEntry> catalog();

// Throws ConfigError for an unknown name, which names the nearest known one.
const CatalogEntry& find_in_catalog(std::string_view name);

// What lies in or shortly below `directory` that looks like this data set but is in no place or
// form that is read, with what to do about it; empty: nothing.
std::string find_nearby(const CatalogEntry& entry, const std::string& directory);
std::string how_to_get(const CatalogEntry& entry);

// The data set that takes the shape and the classes of any network.
inline constexpr std::string_view kSyntheticName = "synthetic";

// Whether a network that takes such images and has `outputs` outputs can be trained on it.
bool fits(const CatalogEntry& entry, std::int64_t channels, std::int64_t height, std::int64_t width,
          std::int64_t outputs);

struct DatasetRequest {
  std::string name = "mnist";
  std::vector<std::string> directories;  // searched in order, each in places_of()
  bool synthesize_when_missing = false;  // "on_missing": "synthesize"; else a ConfigError says
                                         // where it looked and how to fetch
  std::uint64_t seed = 1;                // of the synthetic data
  std::string cache_directory = {};      // for decoded images
  // What data sets without a size of their own adapt to, as DatasetInfo has it. The network's
  // loss ignores `ignored_label`.
  std::int64_t channels = 1, height = 0, width = 0;
  int classes = 0;
  std::int64_t label_height = 1, label_width = 1;
  std::int32_t ignored_label = kNoLabel;
};

// Throws ConfigError for an unknown name, and for missing and damaged files; the latter never make
// it fall back to synthetic data.
std::unique_ptr<DatasetSource> open_dataset(const DatasetRequest& request);

std::vector<std::string> known_datasets();
// Those that can be fetched.
std::vector<std::string> published_datasets();

}  // namespace ddpbench::data
