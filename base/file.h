// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Files: an open descriptor that closes itself, a new file that gets its name only when it is
// whole, and a function that reads the whole text of a file.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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

// Writes all of `bytes`, however often a signal interrupts it. Returns 0, or errno of the failure.
int write_all(const FileDescriptor& file, std::span<const std::byte> bytes) noexcept;

// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed. Otherwise the next file or
// shared memory that the program opens gets that number, and what it prints lands there. Call it
// before anything is opened.
void fill_standard_descriptors() noexcept;

struct WriteOptions {
  // Replaces an existing file. A link stays a link and its target is replaced. Without `force` an
  // existing file stays, even one that appears while the new one is written.
  bool force = false;
  // Refuses to write while another process does; otherwise waits for it.
  bool one_writer = false;
  // Waits until the disk has the data, so that the file survives a power cut.
  bool durable = true;
  // Goes on behind what an earlier writer left of the new file, and leaves it for the next one.
  bool resume = false;
  // Called every 50 ms while another process writes; may throw to wait no longer.
  std::function<void()> while_waiting = {};
};

// A file that is written as <path>.part and gets its name when it is whole. Not thread-safe.
class NewFile {
 public:
  // Throws ConfigError as check_output_path does, and when another process is writing the file
  // (one_writer).
  explicit NewFile(const std::string& path, WriteOptions options = {});
  // Unless commit() has succeeded, leaves the old file in place and no temporary file (resume: none
  // that is empty).
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Throws ConfigError, as does commit().
  void write(std::span<const std::byte> bytes);
  void commit();

  const std::filesystem::path& part() const { return part_; }
  std::uint64_t written() const;  // bytes, of earlier writers too (resume)
  void restart();                 // empties it

 private:
  bool open_and_lock_part();
  void publish_new();

  WriteOptions options_;
  std::filesystem::path target_, part_;
  FileDescriptor file_;
};

// Writes the parts one after the other to a NewFile.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts,
                WriteOptions options = {});
void write_file(const std::string& path, std::string_view text, WriteOptions options = {});

// The name that stands for standard input and standard output on command lines. No file is made
// under it; "./-" names one.
inline constexpr std::string_view kStandardStream = "-";

// Checks what write_file would refuse, before any work is done for it: an empty path, an existing
// file, an absent or unwritable directory, a path that is not a regular file, kStandardStream.
// Throws ConfigError.
void check_output_path(const std::string& path, bool force);

// Describes a file to be read, for the functions below and their messages.
struct InputFile {
  std::string_view what = {};  // "report ", stands before the path
  std::size_t most_bytes = 0;  // a larger file is refused by read_file before it is read
  // Takes pipes, terminals and kStandardStream too, and reads them to their end. Opening a named
  // pipe waits for its writer.
  bool streams = false;
};

// Opens a regular file to be read, or a stream if `input` allows streams. Throws ConfigError,
// naming the path, when it cannot be opened, or is anything else.
struct OpenFile {
  FileDescriptor descriptor;
  std::size_t bytes = 0;  // as the file reports, which may change; 0 for a stream
};
OpenFile open_file(const std::string& path, const InputFile& input = {});
// Returns the whole of it. Throws, too, when it cannot be read or is too large.
std::string read_file(const std::string& path, const InputFile& input);

// Returns the format of a file with this beginning where it is one that is not read here, else "".
inline constexpr std::size_t kHeadBytes = 64;
std::string_view foreign_format(std::string_view head);

// Whether `path` is a regular file, and whether it is a folder. What the system cannot look up (a
// name that is too long, a folder that may not be read) is neither.
bool is_file(const std::filesystem::path& path) noexcept;
bool is_folder(const std::filesystem::path& path) noexcept;

// Whether `path` is a stream that can be read only once: kStandardStream, a pipe, a socket.
bool is_stream(const std::string& path);
// How messages name what is read: the path, or "standard input".
std::string input_name(const std::string& path);

// A handle of a process: a pidfd, which stands for the same process even when its number is used
// again. Empty with errno = ESRCH where there is no such process, and with another errno on kernels
// without pidfds. The descriptor is close-on-exec.
FileDescriptor open_process(pid_t pid) noexcept;

// Whether the process has ended; false for an empty handle. A zombie has ended.
bool has_ended(const FileDescriptor& process) noexcept;

}  // namespace ddpbench
