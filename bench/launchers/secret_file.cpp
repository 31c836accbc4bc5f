// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The file that hands a job's secret to its ranks.
#include "bench/launchers/secret_file.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "parallel/comm/store/tcp_store_protocol.h"
#include "parallel/launch/grace_times.h"

namespace ddpbench::bench {
namespace {

constexpr std::string_view kSecretPrefix = "job-";  // of all our files in the folder
constexpr mode_t kOwnFolder = 0700, kOwnFile = 0600, kOthers = 0077;
constexpr std::size_t kMostBytes = 4096;

[[noreturn]] void refuse(const std::string& why) {
  throw ConfigError(fmt::format(
      "the ranks cannot be given a secret: {}; give them one yourself: {}", why, kSecretLine));
}

struct SecretPlace {
  std::string parent, folder;
};

bool is_own_directory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

SecretPlace place_of(const launch::RankEnvironment& environment) {
  // A launcher may hand on the login host's variable to a host without that folder.
  if (!environment.runtime_directory.empty() && is_own_directory(environment.runtime_directory)) {
    return {environment.runtime_directory, "ddpbench"};
  }
  return {environment.temporary_directory, fmt::format("ddpbench-{}", ::geteuid())};
}

std::string file_name(const launch::RankEnvironment& environment) {
  return fmt::format("{}{:016x}", kSecretPrefix,
                     hash_bytes(environment.job.data(), environment.job.size()));
}

// Why the open file may be a stranger's; empty: it is ours alone.
std::string reason_to_refuse(const struct stat& info) {
  if (info.st_uid != ::geteuid()) {
    return fmt::format("belongs to user {}, this process to user {}", info.st_uid, ::geteuid());
  }
  if ((info.st_mode & kOthers) != 0) {
    return fmt::format("has mode {:04o}, others can reach it", info.st_mode & 07777);
  }
  return "";
}

// Empty when there is no such folder and `make` is false.
FileDescriptor open_folder(const launch::RankEnvironment& environment, bool make) {
  const SecretPlace place = place_of(environment);
  const std::string path = place.parent + "/" + place.folder;
  if (make && ::mkdir(path.c_str(), kOwnFolder) != 0 && errno != EEXIST) {
    refuse(fmt::format("{} cannot be made: {}", path, std::strerror(errno)));
  }
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder && !make && errno == ENOENT) return folder;
  struct stat info {};
  if (!folder || ::fstat(folder.get(), &info) != 0) {
    refuse(fmt::format("{} cannot be opened: {}", path, std::strerror(errno)));
  }
  const std::string reason = reason_to_refuse(info);
  if (!reason.empty()) refuse(fmt::format("{} {}", path, reason));
  return folder;
}

// An open file's lock is released when its last descriptor is closed, also by a kill.
struct flock whole_file(short kind) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool has_living_maker(int file) {
  struct flock lock = whole_file(F_RDLCK);
  return ::fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// Opens `name` if it is there and ours.
FileDescriptor open_own(const FileDescriptor& folder, const std::string& name) {
  FileDescriptor file(
      ::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return {};
  std::string reason = reason_to_refuse(info);
  if (!S_ISREG(info.st_mode)) reason = "is not a file";
  if (!reason.empty()) refuse(fmt::format("{} in the folder of secrets {}", name, reason));
  return file;
}

void lock_folder(const FileDescriptor& folder) {
  const SteadyClock::time_point begin = SteadyClock::now();
  while (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (seconds_since(begin) > launch::kLetEnd_s) {
      refuse("another process of yours holds the folder of secrets; is it stopped?");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Removes what killed jobs left. Under the folder's lock, so that no file is without its lock only
// because it is being made.
void sweep(const FileDescriptor& folder) {
  std::error_code error;
  const std::string path = fmt::format("/proc/self/fd/{}", folder.get());
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kSecretPrefix)) continue;
    const FileDescriptor file = open_own(folder, name);
    if (file && !has_living_maker(file.get())) left.push_back(name);
  }
  for (const std::string& name : left) ::unlinkat(folder.get(), name.c_str(), 0);
}

std::optional<StoreKey> parse(std::string_view text) {
  StoreKey key;
  const std::size_t space = text.find(' '), end = text.find('\n');
  if (space == std::string_view::npos || end == std::string_view::npos || end < space) return {};
  key.port = number_in<int>(text.substr(0, space)).value_or(0);
  key.secret = text.substr(space + 1, end - space - 1);
  const bool valid = key.port > 0 && key.port < 65536 && !key.secret.empty();
  return valid ? std::optional(key) : std::nullopt;
}

}  // namespace

void ensure_long_secret(const launch::RankEnvironment& environment) {
  constexpr std::size_t kLeast = 16;
  if (environment.secret.size() >= kLeast) return;
  throw ConfigError(fmt::format(
      "DDPBENCH_JOB_SECRET has only {} characters. Somebody who guesses it could enter the job; "
      "use at least {}: {}",
      environment.secret.size(), kLeast, kSecretLine));
}

void ensure_one_host(const launch::RankEnvironment& environment, const std::string& interface) {
  const auto refuse_hosts = [](const std::string& why) {
    throw ConfigError(fmt::format(
        "{}: ranks on several hosts need a secret, the same for all. Add this line before the "
        "command that starts them, and have the launcher hand it on (mpirun -x "
        "DDPBENCH_JOB_SECRET): {}",
        why, kSecretLine));
  };
  if (!environment.several_hosts.empty()) refuse_hosts(environment.several_hosts);
  if (!interface.empty()) refuse_hosts(fmt::format("--interface={}", interface));
  // Only an address of this host can be bound.
  sockaddr_in address = comm::ipv4_address(environment.master_address, 5);
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool here =
      !socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != EADDRNOTAVAIL;
  if (!here) {
    refuse_hosts(fmt::format("MASTER_ADDR={} is another host", environment.master_address));
  }
}

SecretFile::SecretFile(const launch::RankEnvironment& environment, const StoreKey& key)
    : folder_(open_folder(environment, true)), name_(file_name(environment)) {
  lock_folder(folder_);
  sweep(folder_);
  if (open_own(folder_, name_)) {
    throw ConfigError(fmt::format(
        "another job of yours has MASTER_PORT={} and waits for its ranks: give this one another "
        "MASTER_PORT, or a secret: {}",
        environment.master_port, kSecretLine));
  }
  const std::string temporary = name_ + ".new";
  file_ = FileDescriptor(::openat(folder_.get(), temporary.c_str(),
                                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnFile));
  struct flock lock = whole_file(F_WRLCK);
  const std::string text = fmt::format("{} {}\n", key.port, key.secret);
  const bool written =
      file_ && ::fcntl(file_.get(), F_OFD_SETLK, &lock) == 0 &&
      ::write(file_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::renameat(folder_.get(), temporary.c_str(), folder_.get(), name_.c_str()) == 0;
  if (!written) {
    const std::string why = std::strerror(errno);
    if (file_) ::unlinkat(folder_.get(), temporary.c_str(), 0);
    refuse(fmt::format("{} cannot be written: {}", secret_file_path(environment), why));
  }
  ::flock(folder_.get(), LOCK_UN);
}

SecretFile& SecretFile::operator=(SecretFile&& other) noexcept {
  remove();
  folder_ = std::move(other.folder_);
  file_ = std::move(other.file_);
  name_ = std::move(other.name_);
  return *this;
}

// Our lock keeps the next job from replacing the file before it is gone.
void SecretFile::remove() noexcept {
  if (!file_) return;
  ::unlinkat(folder_.get(), name_.c_str(), 0);
  file_.reset();
}

std::optional<StoreKey> read_secret_file(const launch::RankEnvironment& environment) {
  const FileDescriptor folder = open_folder(environment, false);
  if (!folder) return std::nullopt;
  const FileDescriptor file = open_own(folder, file_name(environment));
  if (!file || !has_living_maker(file.get())) return std::nullopt;
  std::array<char, kMostBytes> text{};
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes <= 0) return std::nullopt;
  return parse({text.data(), static_cast<std::size_t>(bytes)});
}

std::string secret_file_path(const launch::RankEnvironment& environment) {
  const SecretPlace place = place_of(environment);
  return place.parent + "/" + place.folder + "/" + file_name(environment);
}

}  // namespace ddpbench::bench
