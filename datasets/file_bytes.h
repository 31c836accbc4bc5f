// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The contents of a file, unpacked on the way when it is gzip (which its first bytes tell, not its
// name). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ddpbench::data {

class FileBytes {
 public:
  // Throws ConfigError when the file cannot be opened or read.
  explicit FileBytes(const std::string& path);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  bool is_gzip() const;
  std::uint64_t size_on_disk() const;

  // Fills `out` with the next bytes; returns how many: fewer than out.size() only at the end of the
  // contents, which for gzip is behind its checksum. Throws ConfigError, with the offset in the
  // file on disk, for a damaged or shortened gzip stream and for anything that follows it.
  std::size_t read(std::span<std::uint8_t> out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddpbench::data
