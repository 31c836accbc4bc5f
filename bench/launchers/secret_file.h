// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How the processes of a launcher on one host learn the secret of their store if the user has set
// none: rank 0 makes one and leaves it in a file that only the same user can read.
//
// The file lies in <XDG_RUNTIME_DIR>/ddpbench, or in ddpbench-<uid> of the temporary directory; the
// folder belongs to the user and has mode 0700, the file has mode 0600, and both are checked
// whenever they are opened. Its name comes from RankEnvironment::job. Its maker holds a lock on it
// as long as it lives, so that what a killed job left is recognised: other ranks do not read it,
// and the next rank 0 replaces it.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The line that gives a job its secret, for messages.
inline constexpr const char* kSecretLine =
    "export DDPBENCH_JOB_SECRET=$(head -c 32 /dev/urandom | base64)";

// Throws ConfigError when the given secret is so short that it could be guessed.
void ensure_long_secret(const launch::RankEnvironment& environment);

// Throws ConfigError, with the line to add, when the ranks may be on several hosts, where the file
// does not reach all: the launcher's variables or `interface` (--interface) say so, or MASTER_ADDR
// is no address of this host.
void ensure_one_host(const launch::RankEnvironment& environment, const std::string& interface = "");

// What rank 0 tells the others.
struct StoreKey {
  int port = 0;
  std::string secret;
};

// Rank 0's file. It is removed with this object.
class SecretFile {
 public:
  SecretFile() = default;  // no file
  // Throws ConfigError when another rank 0 of this user lives whose job has the same name, when the
  // folder is not the user's alone, or when the file cannot be written.
  SecretFile(const launch::RankEnvironment& environment, const StoreKey& key);
  SecretFile(SecretFile&& other) noexcept = default;
  SecretFile& operator=(SecretFile&& other) noexcept;
  ~SecretFile() { remove(); }

  void remove() noexcept;

 private:
  FileDescriptor folder_;
  FileDescriptor file_;  // holds the lock
  std::string name_;
};

// What the file says; nothing while there is none, or its maker has ended. Throws ConfigError when
// the file or the folder could be another user's.
std::optional<StoreKey> read_secret_file(const launch::RankEnvironment& environment);
// Its path, for messages.
std::string secret_file_path(const launch::RankEnvironment& environment);

}  // namespace ddpbench::bench
