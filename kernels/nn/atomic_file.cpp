// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// POSIX: open, write, fsync, rename, fsync of the directory.
#include "kernels/nn/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace ddpbench::nn {
namespace {

// A temporary file that is removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target)
      : target_(target), name_(fmt::format("{}.{}.tmp", target, ::getpid())) {
    // What a killed process of this id left behind is overwritten.
    fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("create");
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!renamed_ && fd_ >= 0) ::unlink(name_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void rename_to_target() {
    if (::fsync(fd_) != 0) fail("sync");
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("rename");
    renamed_ = true;
    // The name itself survives a power cut only when its directory is on the disk too. Some file
    // systems cannot sync directories; the data are safe then all the same.
    const std::string folder = std::filesystem::path(target_).parent_path().string();
    const int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
    if (directory < 0) return;
    ::fsync(directory);
    ::close(directory);
  }

 private:
  [[noreturn]] void fail(const char* action) const {
    throw ConfigError(fmt::format("cannot {} the temporary file {} for {}: {}", action, name_,
                                  target_, std::strerror(errno)));
  }

  std::string target_, name_;
  int fd_ = -1;
  bool renamed_ = false;
};

}  // namespace

void write_file_atomically(const std::string& path,
                           const std::vector<std::span<const std::byte>>& parts) {
  TemporaryFile file(path);
  for (const auto& part : parts) file.write(part);
  file.rename_to_target();
}

}  // namespace ddpbench::nn
