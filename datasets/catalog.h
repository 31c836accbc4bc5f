// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The known data sets: their files with sizes and checksums, shapes, and where they are published.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddpbench::data {

// Size and SHA-256 (lower-case hexadecimal) of a file.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::string_view sha256;
};

// An IDX file of a data set: published as `<name>.gz`, read from either form.
struct CatalogFile {
  std::string_view name;
  Fingerprint packed;    // <name>.gz
  Fingerprint unpacked;  // <name>
};

// A data set in the IDX format of MNIST. The files are train images, train labels, test images and
// test labels, in this order.
struct CatalogEntry {
  std::string_view name;
  std::string_view base_url;  // ends with '/'
  std::array<CatalogFile, 4> files;
  std::int64_t height = 28, width = 28;
  int classes = 10;
  bool synthesizable = false;  // a generator can stand in for the files
};

std::span<const CatalogEntry> catalog();

// Throws ConfigError for an unknown name, naming the nearest known one and all of them.
const CatalogEntry& find_in_catalog(std::string_view name);

}  // namespace ddpbench::data
