// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file that comes into being whole or not at all: written beside its place, synced, renamed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file_descriptor.h"

namespace ddpbench::data {

// Written as <path>.part, which only one process at a time may do (a lock that ends with it): so
// what a killed process left is taken over by the next one, and nothing piles up.
class PartialFile {
 public:
  // Throws ConfigError when it cannot be written, or when another process writes it now.
  explicit PartialFile(std::string path);
  ~PartialFile();  // removes it unless commit() succeeded
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Makes it durable and gives it its name, replacing what had that name.
  void commit();

 private:
  bool open_and_lock();

  std::string path_, part_path_;
  FileDescriptor file_;
};

}  // namespace ddpbench::data
