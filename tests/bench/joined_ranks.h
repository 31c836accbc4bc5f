// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What an external launcher (torchrun, mpirun, srun) passes to the ranks that it starts.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

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

// The variables of `size` ranks, as an external launcher sets them.
inline std::vector<Variables> world(int size, int port, const Variables& more = {}) {
  std::vector<Variables> ranks;
  for (int r = 0; r < size; ++r) {
    Variables variables{
        {"RANK", std::to_string(r)},           {"LOCAL_RANK", std::to_string(r)},
        {"WORLD_SIZE", std::to_string(size)},  {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port)}, {"DDPBENCH_JOB_SECRET", "0123456789abcdef"}};
    variables.insert(more.begin(), more.end());
    ranks.push_back(variables);
  }
  return ranks;
}

}  // namespace ddpbench::test
