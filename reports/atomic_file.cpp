// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Temporary file, fsync, rename, fsync of the directory.
#include "reports/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace ddpbench::report {
namespace {

namespace fs = std::filesystem;

std::string error_text(int code) { return std::generic_category().message(code); }

[[noreturn]] void fail_exists(const fs::path& path) {
  throw ConfigError(fmt::format(
      "{} exists already; choose another name or give --force to replace it", path.string()));
}

[[noreturn]] void fail_write(const fs::path& path, const char* what, int code) {
  throw ConfigError(fmt::format("cannot write {}: {}: {}; choose another name", path.string(), what,
                                error_text(code)));
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The regular file that a forced write replaces; a link stays a link.
fs::path resolved(const fs::path& path) {
  std::error_code code;
  const fs::path target = fs::canonical(path, code);
  return code ? path : target;
}

void check_directory(const fs::path& path) {
  const fs::path directory = directory_of(path);
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) fail_write(path, "its directory", errno);
  if (!S_ISDIR(info.st_mode)) fail_write(path, "its directory", ENOTDIR);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) fail_write(path, "its directory", errno);
}

void check_existing(const fs::path& path, bool force) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return;
    fail_write(path, "looking for it", errno);
  }
  if (!force) fail_exists(path);
  if (::stat(path.c_str(), &info) != 0) fail_write(path, "following the link", errno);
  if (!S_ISREG(info.st_mode)) {
    throw ConfigError(fmt::format("cannot write {}: it is not a regular file; choose another name",
                                  path.string()));
  }
}

// A file beside the target that is gone when this object goes.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    // The name is short and not the target's, so that no length limit is met that the target's own
    // name does not meet.
    for (int attempt = 0; attempt < 100; ++attempt) {
      path_ = directory_of(target) / fmt::format(".ddpbench-{}-{}.tmp", ::getpid(), attempt);
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ >= 0) return;
      if (errno != EEXIST) break;
    }
    fail_write(target_, "making a temporary file beside it", errno);
  }
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    ::unlink(path_.c_str());  // after a rename there is nothing left to remove
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const fs::path& path() const { return path_; }

  void write_and_sync(std::string_view text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_write(target_, "writing", errno);
      done += static_cast<std::size_t>(written);
    }
    if (::fsync(fd_) != 0) fail_write(target_, "syncing", errno);
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) fail_write(target_, "closing", errno);
  }

 private:
  fs::path target_, path_;
  int fd_ = -1;
};

// Gives the temporary file its name; never replaces anything, whoever made it and when.
void publish_new(const fs::path& temporary, const fs::path& path) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
    return;
  }
  // Some file systems (NFS) have no such rename; a hard link refuses existing names too.
  if ((errno == EINVAL || errno == ENOSYS) && ::link(temporary.c_str(), path.c_str()) == 0) return;
  if (errno == EEXIST) fail_exists(path);
  fail_write(path, "renaming", errno);
}

void sync_directory(const fs::path& path) {
  const int fd = ::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // write-only directories cannot be opened; the file itself is synced
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

void check_output_path(const std::string& path, bool force) {
  if (path.empty()) throw ConfigError("the name of the file to write is empty");
  check_directory(path);
  check_existing(path, force);
}

void write_file_atomically(const std::string& path, std::string_view text, bool force) {
  check_output_path(path, force);
  const fs::path target = force ? resolved(path) : fs::path(path);
  TemporaryFile temporary(target);
  temporary.write_and_sync(text);
  if (!force) {
    publish_new(temporary.path(), target);
  } else if (::rename(temporary.path().c_str(), target.c_str()) != 0) {
    fail_write(target, "renaming", errno);
  }
  sync_directory(target);
}

}  // namespace ddpbench::report
