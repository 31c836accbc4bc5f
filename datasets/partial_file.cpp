// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Create, lock, write, sync, rename, sync the directory.
#include "datasets/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace ddpbench::data {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int error = errno;
  throw ConfigError(fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)));
}

using Status = struct stat;

bool same_file(const Status& a, const Status& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// A rename is durable once the directory is.
void sync_directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const FileDescriptor opened(
      open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.is_open()) fail(directory, "open");
  // Some file systems cannot sync directories and say EINVAL; then there is nothing to be done.
  if (fsync(opened.get()) != 0 && errno != EINVAL) fail(directory, "sync");
}

}  // namespace

PartialFile::PartialFile(std::string path) : path_(std::move(path)), part_path_(path_ + ".part") {
  while (!open_and_lock()) {
  }
}

// False when the process that had the lock renamed or removed the file before we got it.
bool PartialFile::open_and_lock() {
  FileDescriptor part(open(part_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!part.is_open()) fail(part_path_, "create");
  if (flock(part.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail(part_path_, "lock");
    throw ConfigError(
        fmt::format("{}: another process is downloading it; wait until it is done", part_path_));
  }
  Status ours{}, named{};
  if (fstat(part.get(), &ours) != 0) fail(part_path_, "stat");
  if (stat(part_path_.c_str(), &named) != 0 || !same_file(ours, named)) return false;
  if (ftruncate(part.get(), 0) != 0) fail(part_path_, "empty");
  file_ = std::move(part);
  return true;
}

// While the lock is still held, so that the file of a next process is not removed.
PartialFile::~PartialFile() {
  if (file_.is_open()) unlink(part_path_.c_str());
}

void PartialFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(part_path_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void PartialFile::commit() {
  if (fsync(file_.get()) != 0) fail(part_path_, "sync");
  if (std::rename(part_path_.c_str(), path_.c_str()) != 0) fail(part_path_, "rename");
  file_.reset();
  sync_directory_of(path_);
}

}  // namespace ddpbench::data
