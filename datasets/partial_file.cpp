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

#include "kernels/runtime/error.h"

namespace ddpbench::data {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int error = errno;
  throw ConfigError(fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)));
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// A rename is durable once the directory is.
void sync_directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const int descriptor = open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(directory, "open");
  const int status = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  // Some file systems cannot sync directories and say EINVAL; then there is nothing to be done.
  errno = error;
  if (status != 0 && error != EINVAL) fail(directory, "sync");
}

}  // namespace

PartialFile::PartialFile(std::string path) : path_(std::move(path)), part_path_(path_ + ".part") {
  while (!open_and_lock()) {
  }
}

// False when the process that had the lock renamed or removed the file before we got it.
bool PartialFile::open_and_lock() {
  descriptor_ = open(part_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) fail(part_path_, "create");
  struct stat ours {
  }, named{};
  const bool locked = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  const int error = errno;
  if (locked && fstat(descriptor_, &ours) == 0 && stat(part_path_.c_str(), &named) == 0 &&
      same_file(ours, named)) {
    if (ftruncate(descriptor_, 0) == 0) return true;
    fail(part_path_, "empty");
  }
  close(descriptor_);
  descriptor_ = -1;
  if (locked) return false;
  if (error == EWOULDBLOCK) {
    throw ConfigError(
        fmt::format("{}: another process is downloading it; wait until it is done", part_path_));
  }
  errno = error;
  fail(part_path_, "lock");
}

PartialFile::~PartialFile() {
  if (descriptor_ < 0) return;
  unlink(part_path_.c_str());
  close(descriptor_);
}

void PartialFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(part_path_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void PartialFile::commit() {
  if (fsync(descriptor_) != 0) fail(part_path_, "sync");
  if (std::rename(part_path_.c_str(), path_.c_str()) != 0) fail(part_path_, "rename");
  close(descriptor_);
  descriptor_ = -1;
  sync_directory_of(path_);
}

}  // namespace ddpbench::data
