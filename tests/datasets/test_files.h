// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Temporary directories, IDX files and gzip for the tests of this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace ddpbench::data {

// The directory is removed with its contents at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, const std::string& bytes);
std::string read_file(const std::filesystem::path& path);
std::string gzip(const std::string& bytes);

// The directory of the real files, which are not part of the repository; empty when they are
// absent.
std::optional<std::string> real_data_directory(const std::string& name);

// A little MNIST: the contents of its four files, unpacked.
struct SmallMnist {
  SmallMnist();
  std::vector<std::string> names;  // train images, train labels, test images, test labels
  std::vector<std::string> contents;

  // Writes the files to <directory>/mnist/, as gzip or plain.
  void write(const std::filesystem::path& directory, bool packed) const;
};

std::string big_endian(std::uint32_t value);

// Opens mnist in `directory` (no synthetic stand-in) and decodes it.
std::vector<std::byte> open_and_decode(const std::filesystem::path& directory,
                                       const std::string& name = "mnist");
// The message of the ConfigError that open_and_decode throws; empty when it throws none.
std::string error_of_decoding(const std::filesystem::path& directory);

std::string sha256_of(const std::string& bytes);

// A member of a tar archive: header and contents.
std::string tar_member(const std::string& name, const std::string& contents, char type = '0');

}  // namespace ddpbench::data
