// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Files: an open one that closes itself, one that reaches its name whole or not at all, and the
// whole text of one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ddpbench {

// Owns a file descriptor. Not thread-safe.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) noexcept : number_(number) {}  // takes it over; -1: none
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = other.release();
    }
    return *this;
  }

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  int release() noexcept { return std::exchange(number_, -1); }
  void reset() noexcept;  // closes it

 private:
  int number_ = -1;
};

struct WriteOptions {
  // Replaces a file that is there; a link stays a link and its target is replaced. Without it a
  // file that is there stays, even one that appears while the new one is written.
  bool force = false;
  // One process at a time writes this file, to <path>.part under a lock that ends with the process:
  // the next one takes over what a killed one left. Otherwise the temporary name is the process's.
  bool one_writer = false;
  // Waits until the disk has it, so that it survives a power cut.
  bool durable = true;
};

// A file that is written beside its place and gets its name when it is whole. Not thread-safe.
class NewFile {
 public:
  // Throws ConfigError as check_output_path, and when another process writes the file now
  // (one_writer).
  explicit NewFile(const std::string& path, WriteOptions options = {});
  // Leaves what had the name, and no temporary file, unless commit() has succeeded.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Throws ConfigError, as does commit().
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  void open_own_name();
  bool open_and_lock_part();
  void publish_new();

  WriteOptions options_;
  std::filesystem::path target_, temporary_;
  FileDescriptor file_;
};

// Writes the parts one after the other to a NewFile.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts,
                WriteOptions options = {});
void write_file(const std::string& path, std::string_view text, WriteOptions options = {});

// What write_file would refuse, before any work is done for it: empty path, existing file, absent
// or unwritable directory, anything but a regular file. Throws ConfigError.
void check_output_path(const std::string& path, bool force);

// What a file to be read is, for read_file and its messages.
struct InputFile {
  std::string_view what;        // "report ", stands before the path
  std::size_t most_bytes = 0;   // a larger file is refused before it is read
  std::string_view if_larger;   // "; a report of ... has 220 MB", stands behind the refusal
  std::size_t spare_bytes = 0;  // capacity that the text has beyond its size
};

// The whole of a regular file. Throws ConfigError, naming the path, when it cannot be read, is not
// regular or is too large.
std::string read_file(const std::string& path, const InputFile& input);

}  // namespace ddpbench
