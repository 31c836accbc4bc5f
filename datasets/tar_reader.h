// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the files of a tar archive (POSIX.1-1988 "ustar"; also gzip) one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "datasets/file_bytes.h"

namespace ddpbench::data {

class TarReader {
 public:
  // Throws ConfigError when the file cannot be read.
  explicit TarReader(const std::string& path);

  struct Member {
    std::string name;         // with its directories
    std::uint64_t bytes = 0;  // of its contents
  };
  // The next regular file; nothing at the end. Passes over what is left of the one before, and over
  // directories and links. Throws ConfigError, with the offset in the unpacked archive, for a
  // damaged header and for an archive that ends within a file.
  std::optional<Member> next();

  // Fills `out` with the next bytes of the file. REQUIRES: so many are left.
  void read(std::span<std::uint8_t> out);

 private:
  [[noreturn]] void fail(std::uint64_t offset, const std::string& expected,
                         const std::string& found) const;
  void read_whole(std::span<std::uint8_t> out);
  void skip(std::uint64_t bytes);

  std::string path_;
  FileBytes file_;
  std::uint64_t offset_ = 0;  // of the next byte to read
  std::uint64_t left_ = 0;    // of the member's contents
  std::uint64_t gap_ = 0;     // behind the contents, to the next header
};

}  // namespace ddpbench::data
