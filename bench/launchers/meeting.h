// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How agents find their supervisor: below a launcher, that is the process of rank 0. It listens,
// by a TCP store, and both sides prove to each other that they have the job's secret. Where the
// user gave none, it listens at a local socket, by which the kernel proves the other's user.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The line that gives a job its secret, for messages.
inline constexpr const char* kSecretLine =
    "export DDPBENCH_JOB_SECRET=$(head -c 32 /dev/urandom | base64)";

// Throws ConfigError, with that line, when the ranks may be on several hosts and have no secret:
// the launcher's variables or `interface` (--interface) say so, or MASTER_ADDR is no address of
// this host.
void ensure_one_host(const launch::RankEnvironment& environment, const std::string& interface = "");

// So often who waits for others says so.
inline constexpr double kSayEvery_s = 3;

class AgentListener {
 public:
  // Of rank 0's process. Throws ConfigError when the user must set a secret, when another job of
  // the user has the name or port, and when this host lacks the interface (--interface; empty:
  // any).
  AgentListener(const launch::RankEnvironment& environment, const std::string& interface,
                double limit_s);
  // At an address of this host, for agents that are told words() and secret().
  explicit AgentListener(const std::string& address);
  AgentListener(const AgentListener&) = delete;
  AgentListener& operator=(const AgentListener&) = delete;

  // The connections of agents that have come since the last call.
  std::vector<FileDescriptor> take();
  // Adds what to wait for until take() has something.
  void watch(std::vector<pollfd>& all) const;
  // No further agent needs to find it: the next job may have the same name.
  void all_are_here() { local_.reset(); }
  bool is_local() const { return server_ == nullptr; }
  std::string words() const;  // for meet_supervisor()
  const std::string& secret() const { return options_.secret; }
  int port() const { return server_ ? server_->port() : options_.port; }

 private:
  void serve();

  comm::TcpStoreOptions options_;
  FileDescriptor come_;  // a pipe, by which the store's thread tells the descriptors of sockets
  std::unique_ptr<comm::TcpStoreServer> server_;  // null: by local_
  FileDescriptor local_;
};

// A connection to the supervisor, and the secret that both have proved to have; empty: it will tell
// one, by a local socket.
struct Meeting {
  FileDescriptor socket;
  std::string secret;
};

// Connects an agent's process to rank 0's. Every few seconds rank 1 says on stderr that it waits.
// Throws CommError and ConfigError; Interrupted when a signal asks the process to end.
Meeting meet_supervisor(const launch::RankEnvironment& environment, const std::string& interface,
                        double limit_s);
// The same of an agent that was told where: AgentListener::words().
Meeting meet_supervisor(const std::string& words, const std::string& secret);

}  // namespace ddpbench::bench
