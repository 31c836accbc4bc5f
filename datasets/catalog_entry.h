// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the program knows of a published data set: one row of the catalog.
#pragma once

#include <cstdint>
#include <memory>
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

struct CatalogEntry {
  std::string_view name;
  std::string_view base_url;  // ends with '/'
  std::vector<CatalogFile> files;
  int classes = 0;
  // Makes the source for the files in `directory`/<name>/ and reads only headers. Null when none of
  // the files is there. Throws ConfigError when some are missing, damaged or do not fit together.
  std::unique_ptr<DatasetSource> (*open)(const CatalogEntry& entry,
                                         const std::string& directory) = nullptr;
  // Makes a generator that can stand in for the files; null where there is none.
  std::unique_ptr<DatasetSource> (*synthesize)(const std::string& name,
                                               std::uint64_t seed) = nullptr;
};

}  // namespace ddpbench::data
