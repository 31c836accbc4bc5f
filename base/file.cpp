// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A file is written as <path>.part under a lock, which ends with its process; then come fsync,
// rename and fsync of the directory. The next writer of the path takes over what a killed one left.
#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench {
namespace {

namespace fs = std::filesystem;
using Status = struct stat;

std::string error_text(int code) { return std::generic_category().message(code); }

[[noreturn]] void fail_exists(const fs::path& path) {
  throw ConfigError(fmt::format(
      "{} exists already; choose another name or give --force to replace it", path.string()));
}

[[noreturn]] void fail_write(const fs::path& path, const char* what, int code) {
  throw ConfigError(fmt::format("cannot write {}: {}: {}; choose another name or place",
                                path.string(), what, error_text(code)));
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Whether `path` names the open file, and not another one or none.
bool is_name_of(const fs::path& path, const FileDescriptor& file) {
  Status open{}, named{};
  return ::fstat(file.get(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// The regular file that a forced write replaces; a link stays a link.
fs::path resolved(const fs::path& path) {
  std::error_code code;
  const fs::path target = fs::canonical(path, code);
  return code ? path : target;
}

void check_directory(const fs::path& path) {
  // Only folders have a "." in them.
  if (::access((directory_of(path) / ".").c_str(), W_OK | X_OK) != 0) {
    fail_write(path, "its directory", errno);
  }
}

// It takes all that is written to it, and stays.
bool is_null_device(const fs::path& path) {
  Status info{}, null{};
  return ::stat(path.c_str(), &info) == 0 && ::stat("/dev/null", &null) == 0 &&
         S_ISCHR(info.st_mode) && info.st_rdev == null.st_rdev;
}

void check_existing(const fs::path& path, bool force) {
  Status info{};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return;
    fail_write(path, "looking for it", errno);
  }
  if (!force && !S_ISDIR(info.st_mode)) fail_exists(path);
  if (::stat(path.c_str(), &info) != 0) fail_write(path, "following the link", errno);
  if (!S_ISREG(info.st_mode)) {
    throw ConfigError(fmt::format("cannot write {}: it is not a regular file; choose another name",
                                  path.string()));
  }
}

// The new name survives a power cut only when its directory is on the disk, too.
void sync_directory(const fs::path& path) {
  const FileDescriptor directory(
      ::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return;  // write-only directories cannot be opened; the file itself is synced
  // Some file systems cannot sync directories and say EINVAL.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) {
    fail_write(path, "syncing its directory", errno);
  }
}

[[noreturn]] void fail_read(const std::string& path, const InputFile& input, int code) {
  const std::string name = input_name(path);
  if (code == ENOENT) throw ConfigError(fmt::format("{}{}: no such file", input.what, name));
  throw ConfigError(fmt::format("{}{}: cannot be read: {}", input.what, name, error_text(code)));
}

[[noreturn]] void fail_larger(const std::string& path, const InputFile& input) {
  throw ConfigError(fmt::format("{}{}: larger than {}", input.what, input_name(path),
                                size_text(input.most_bytes)));
}

bool is_pipe(const Status& info) { return S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode); }

// Returns 0 at the end of the file.
std::size_t read_some(int file, std::span<char> to, const std::string& path,
                      const InputFile& input) {
  ssize_t count = 0;
  do {
    count = ::read(file, to.data(), to.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail_read(path, input, errno);
  return static_cast<std::size_t>(count);
}

}  // namespace

void FileDescriptor::reset() noexcept {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

int write_all(const FileDescriptor& file, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

void fill_standard_descriptors() noexcept {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDWR);
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

NewFile::NewFile(const std::string& path, WriteOptions options) : options_(options) {
  check_output_path(path, options.force);
  target_ = options.force ? resolved(path) : fs::path(path);
  if (is_null_device(path)) {
    file_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    return;
  }
  part_ = target_.string() + ".part";
  while (!open_and_lock_part()) {
  }
}

// False when the process that held the lock renamed or removed the file before we got the lock.
// File systems without locks do without.
bool NewFile::open_and_lock_part() {
  constexpr int kHow = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // never waits
  FileDescriptor part(::open(part_.c_str(), kHow, 0666));
  if (!part) fail_write(part_, "making it", errno);
  const bool asks = options_.one_writer || options_.while_waiting;
  while (::flock(part.get(), asks ? LOCK_EX | LOCK_NB : LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;
    if (options_.one_writer) {
      throw ConfigError(
          fmt::format("{}: another process is writing it; wait until it is done", part_.string()));
    }
    options_.while_waiting();
    ::poll(nullptr, 0, 50);  // milliseconds
  }
  if (!is_name_of(part_, part)) return false;
  Status status{};
  if (::fstat(part.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1)
    throw ConfigError(part_.string() + ": a pipe, or another name of a file; remove it");
  file_ = std::move(part);
  if (!options_.resume) restart();
  ::lseek(file_.get(), 0, SEEK_END);
  return true;
}

std::uint64_t NewFile::written() const {
  return static_cast<std::uint64_t>(::lseek(file_.get(), 0, SEEK_CUR));
}

void NewFile::restart() {
  if (::ftruncate(file_.get(), 0) != 0) fail_write(part_, "emptying it", errno);
  ::lseek(file_.get(), 0, SEEK_SET);
}

// The name is removed before the lock ends, so that the file of the next process is not removed.
NewFile::~NewFile() {
  if (file_ && !part_.empty() && !(options_.resume && written() > 0)) ::unlink(part_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  if (const int code = write_all(file_, bytes); code != 0) fail_write(target_, "writing", code);
}

void NewFile::commit() {
  if (part_.empty()) return;
  if (options_.durable && ::fsync(file_.get()) != 0) fail_write(target_, "syncing", errno);
  if (!options_.force) {
    publish_new();
  } else if (::rename(part_.c_str(), target_.c_str()) != 0) {
    fail_write(target_, "renaming", errno);
  }
  // Some file systems (NFS) report only now that bytes did not fit.
  if (::close(file_.release()) != 0) fail_write(target_, "closing", errno);
  if (options_.durable) sync_directory(target_);
}

// Never replaces a file, even one made just before.
void NewFile::publish_new() {
  if (::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) == 0) {
    return;
  }
  // Some file systems (NFS) have no such rename; a hard link refuses existing names too.
  if ((errno == EINVAL || errno == ENOSYS) && ::link(part_.c_str(), target_.c_str()) == 0) {
    ::unlink(part_.c_str());
    return;
  }
  if (errno == EEXIST) fail_exists(target_);
  fail_write(target_, "renaming", errno);
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts,
                WriteOptions options) {
  NewFile file(path, options);
  for (const std::span<const std::byte> part : parts) file.write(part);
  file.commit();
}

void write_file(const std::string& path, std::string_view text, WriteOptions options) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  write_file(path, std::span(&bytes, 1), options);
}

void check_output_path(const std::string& path, bool force) {
  if (path.empty()) throw ConfigError("the name of the file to write is empty");
  if (path == kStandardStream) {
    throw ConfigError(
        "'-' stands for standard output, which does not take this file; ./- names a file");
  }
  if (is_null_device(path)) return;
  check_directory(path);
  check_existing(path, force);
}

std::string_view foreign_format(std::string_view head) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kKnown = {
      {{"<", "a web page (HTML or XML); download the file again"},
       {"version https://git-lfs", "a Git LFS pointer; `git lfs pull` gets the file"},
       {"\x1f\x8b", "a gzip file; unpack it"},
       {"PK\3\4",
        "a zip archive; if torch.save wrote it, use safetensors.torch.save_file(torch.load('FILE', "
        "map_location='cpu'), 'FILE.safetensors')"},
       {"\x80",
        "a Python pickle; if torch.save wrote it, use "
        "safetensors.torch.save_file(torch.load('FILE', "
        "map_location='cpu'), 'FILE.safetensors')"}}};
  head.remove_prefix(std::min(head.size(), head.find_first_not_of(" \t\r\n")));
  for (const auto& [begin, words] : kKnown) {
    if (head.starts_with(begin)) return words;
  }
  return "";
}

bool is_file(const std::filesystem::path& path) noexcept {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_folder(const std::filesystem::path& path) noexcept {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_stream(const std::string& path) {
  Status info{};
  return path == kStandardStream || (::stat(path.c_str(), &info) == 0 && is_pipe(info));
}

std::string input_name(const std::string& path) {
  return path == kStandardStream ? "standard input" : path;
}

OpenFile open_file(const std::string& path, const InputFile& input) {
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  const int how = O_RDONLY | O_CLOEXEC | O_NOCTTY | (input.streams ? 0 : O_NONBLOCK);
  FileDescriptor file(input.streams && path == kStandardStream
                          ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                          : ::open(path.c_str(), how));
  Status info{};
  if (!file || ::fstat(file.get(), &info) != 0) fail_read(path, input, errno);
  if (input.streams && (is_pipe(info) || ::isatty(file.get()) != 0)) return {std::move(file), 0};
  if (!S_ISREG(info.st_mode)) {
    throw ConfigError(fmt::format("{}{}: not a regular file", input.what, input_name(path)));
  }
  return {std::move(file), static_cast<std::size_t>(info.st_size)};
}

std::string read_file(const std::string& path, const InputFile& input) {
  constexpr std::size_t kLeast = 4096;
  const auto [file, expected] = open_file(path, input);
  if (expected > input.most_bytes) fail_larger(path, input);
  std::string text;
  text.reserve(expected + kLeast);
  for (std::size_t size = 0;;) {
    // One byte more than expected shows the end of the file without growing the text.
    text.resize(std::max(expected + 1, size + kLeast));
    const std::size_t count = read_some(file.get(), std::span(text).subspan(size), path, input);
    size += count;
    if (size > input.most_bytes) fail_larger(path, input);
    if (count > 0) continue;
    text.resize(size);
    return text;
  }
}

FileDescriptor open_process(pid_t pid) noexcept {
  // Not through glibc: the header of 2.36 lacks the C linkage.
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool has_ended(const FileDescriptor& process) noexcept {
  pollfd polled{process.get(), POLLIN, 0};
  return process && ::poll(&polled, 1, 0) > 0;
}

}  // namespace ddpbench
