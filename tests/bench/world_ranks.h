// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What an external launcher (torchrun, mpirun, srun) passes to the processes that it starts.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/program.h"

namespace ddpbench::test {

using Variables = std::map<std::string, std::string>;

// A listener on a free port of the loopback interface, as torchrun's agent is.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { ::close(fd_); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

inline int free_port() { return Listener().port(); }

// The rank processes of `program` whose rank is `rank`, which their agents or a supervisor started.
inline std::vector<int> processes_of_rank(const Program& program, int rank) {
  std::vector<int> found;
  for (const int pid : program.processes()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
    bool is_rank = false, has_number = false;
    for (std::string variable; std::getline(file, variable, '\0');) {
      is_rank = is_rank || variable.starts_with("DDPBENCH_RUN_FD=");
      has_number = has_number || variable == "RANK=" + std::to_string(rank);
    }
    if (is_rank && has_number) found.push_back(pid);
  }
  return found;
}

// The processes of one world that a launcher starts, one by one: that of rank 0 supervises, the
// others are agents.
class Ranks {
 public:
  Ranks(const Program& program, std::vector<Variables> variables)
      : program_(program), variables_(std::move(variables)), pids_(variables_.size()) {}
  // Leaves no process behind where a test ends early.
  ~Ranks() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] == 0) continue;
      ::kill(pids_[rank], SIGKILL);
      finish(rank);
    }
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int start(std::size_t rank, const std::vector<std::string>& arguments) {
    pids_[rank] = program_.start(arguments, variables_[rank], "." + std::to_string(rank));
    return pids_[rank];
  }
  void start_all(const std::vector<std::string>& arguments) {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) start(rank, arguments);
  }
  void signal(std::size_t rank, int number) const { ::kill(pids_[rank], number); }
  ProgramResult finish(std::size_t rank) {
    return program_.finish(std::exchange(pids_[rank], 0), "." + std::to_string(rank));
  }

 private:
  const Program& program_;
  std::vector<Variables> variables_;
  std::vector<int> pids_;  // 0: not started, or finished
};

// The variables of `size` ranks, as an external launcher sets them.
inline std::vector<Variables> world(int size, int port, const Variables& more = {}) {
  std::vector<Variables> ranks;
  for (int r = 0; r < size; ++r) {
    Variables variables{
        {"RANK", std::to_string(r)},           {"LOCAL_RANK", std::to_string(r)},
        {"WORLD_SIZE", std::to_string(size)},  {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port)}, {"DDPBENCH_JOB_SECRET", "0123456789abcdef"}};
    for (const auto& [name, value] : more) variables[name] = value;
    ranks.push_back(variables);
  }
  return ranks;
}

// The same without a secret: rank 0 makes one, below `directory`.
inline std::vector<Variables> world_without_secret(int size, int port,
                                                   const std::string& directory) {
  auto ranks = world(size, port, {{"TMPDIR", directory}});
  for (Variables& variables : ranks) variables.erase("DDPBENCH_JOB_SECRET");
  return ranks;
}

}  // namespace ddpbench::test
