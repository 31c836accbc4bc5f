// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// IDX files, the format of MNIST (http://yann.lecun.com/exdb/mnist), gzip or plain, and data sets
// that consist of four of them.
//
// A file holds big-endian 32-bit numbers, then the data, row by row. The numbers are the magic
// (0x0800 for bytes, plus the number of dimensions) and the dimensions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "datasets/catalog_entry.h"

namespace ddpbench::data {

enum class IdxKind : std::uint8_t { images, labels };

struct IdxShape {
  std::int64_t count = 0;
  std::int64_t height = 1, width = 1;  // 1 for labels
  std::int64_t payload_bytes() const { return count * height * width; }
  bool operator==(const IdxShape&) const = default;
};

class IdxFile {
 public:
  // Reads and checks the header only. Throws ConfigError naming file, offset, expected and found.
  IdxFile(std::string path, IdxKind kind);

  const std::string& path() const { return path_; }
  const IdxShape& shape() const { return shape_; }

  // Fills `out`, which has shape().payload_bytes(), and checks that the file ends there. Throws
  // ConfigError for a file that is shorter, longer or damaged, or whose header has changed.
  void read(std::span<std::uint8_t> out) const;

 private:
  std::string path_;
  IdxKind kind_;
  IdxShape shape_;
};

// Throws ConfigError, naming offset and record of the first label that is not in [0, classes).
void check_labels(const std::string& path, std::span<const std::uint8_t> labels, int classes);

// CatalogEntry::open for the IDX format of MNIST. The entry's files are train images, train labels,
// test images and test labels, in this order, of 28 x 28 grey pixels. Fewer samples than were
// published are fine (a subset); another image size is not.
std::unique_ptr<DatasetSource> open_idx_dataset(const CatalogEntry& entry,
                                                const std::string& directory);

}  // namespace ddpbench::data
