// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the contents of a file and unpacks them when it is gzip. The file's first bytes tell
// whether it is gzip, not its name. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ddpbench::data {

// True for any directory entry of that name, also a broken link: opening it then says what is
// wrong. Throws ConfigError when it cannot look.
bool is_there(const std::string& path);

class FileBytes {
 public:
  // Throws ConfigError when the file cannot be opened or read.
  explicit FileBytes(const std::string& path);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  bool is_gzip() const;
  std::uint64_t size_on_disk() const;

  // Fills `out` with the next bytes and returns their number. It is less than out.size() only at
  // the end of the contents (of gzip: behind its checksum). Throws ConfigError, with the offset in
  // the file on disk, for a damaged or shortened gzip stream and for bytes behind it that are not
  // gzip.
  std::size_t read(std::span<std::uint8_t> out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddpbench::data
