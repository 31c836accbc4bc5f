// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How agents find their supervisor: below a launcher, that is the process of rank 0. It listens,
// by a TCP store, and both sides prove to each other that they have the job's secret.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "bench/launchers/secret_file.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// So often who waits for others says so.
inline constexpr double kSayEvery_s = 3;

class AgentListener {
 public:
  // Of rank 0's process. Throws ConfigError when the user must set a secret, when another job of
  // the user has the port, and when this host lacks the interface (--interface; empty: any).
  AgentListener(const launch::RankEnvironment& environment, const std::string& interface,
                double limit_s);
  // At an address of this host, for agents that are told words() and secret().
  explicit AgentListener(const std::string& address);
  ~AgentListener();
  AgentListener(const AgentListener&) = delete;
  AgentListener& operator=(const AgentListener&) = delete;

  // The connections of agents that have come since the last call.
  std::vector<FileDescriptor> take();
  // Adds what to wait for until take() has something.
  void watch(std::vector<pollfd>& all) const;
  // No further agent needs to find the port.
  void all_are_here() { secret_file_.remove(); }
  std::string words() const;  // for meet_supervisor()
  const std::string& secret() const { return options_.secret; }
  // The address of this host at which it listens.
  const std::string& address() const { return options_.host; }
  int port() const { return server_->port(); }

 private:
  struct Queue;
  void serve();

  comm::TcpStoreOptions options_;
  std::shared_ptr<Queue> queue_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  SecretFile secret_file_;
};

// A connection to the supervisor, and the secret that both have proved to have.
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
