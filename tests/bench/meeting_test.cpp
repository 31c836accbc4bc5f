// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How processes of one user on one host meet without a secret: who is let in, and who is not.
#include "bench/launchers/meeting.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/random.h"

namespace ddpbench::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LocalMeeting : public testing::Test {
 protected:
  // A name for each test: the process of another user keeps its copy of the socket for a moment.
  LocalMeeting() {
    environment.job = fmt::format("{}:{}", ::getpid(),
                                  testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  static std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no ConfigError";
  }
  // Calls `action` with a socket and rank 0's address in a process of another user, which says by a
  // byte that it has, and ends when the returned socket is closed.
  FileDescriptor as_another_user(
      const std::function<int(int socket, const sockaddr* name, socklen_t size)>& action) const {
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string text =
        fmt::format("ddpbench-{}-{:016x}", ::geteuid(),
                    hash_bytes(environment.job.data(), environment.job.size()));
    text.copy(name.sun_path + 1, text.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    if (::fork() == 0) {
      ::close(ends[0]);
      constexpr uid_t kNobody = 65534;
      const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
      if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(2);
      char byte = action(socket, reinterpret_cast<const sockaddr*>(&name), size) == 0 ? 'y' : 'n';
      if (::write(ends[1], &byte, 1) == 1) [[maybe_unused]]
        const auto end = ::read(ends[1], &byte, 1);
      ::_exit(0);
    }
    ::close(ends[1]);
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    return FileDescriptor(ends[0]);
  }

  launch::RankEnvironment environment;
};

TEST_F(LocalMeeting, ConnectsProcessesOfOneUser) {
  AgentListener listener(environment, "", 5);
  EXPECT_TRUE(listener.is_local());
  EXPECT_GE(listener.secret().size(), 32U) << "for the agents, through their sockets";
  EXPECT_EQ(listener.take().size(), 0U);
  const Meeting agent = meet_supervisor(environment, "", 5);
  EXPECT_EQ(agent.secret, "");
  const auto come = listener.take();
  ASSERT_EQ(come.size(), 1U);
  EXPECT_EQ(::write(agent.socket.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::recv(come[0].get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(LocalMeeting, IsOfOneJobAtATime) {
  AgentListener listener(environment, "", 5);
  EXPECT_THAT(error_of([&] { AgentListener(environment, "", 5); }),
              AllOf(HasSubstr("another job"), HasSubstr(kSecretLine)));
  launch::RankEnvironment other = environment;
  other.job += "1";
  AgentListener(other, "", 5);
  listener.all_are_here();
  AgentListener(environment, "", 5);
}

TEST_F(LocalMeeting, LetsNoOtherUserIn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  AgentListener listener(environment, "", 5);
  const FileDescriptor stranger = as_another_user(::connect);
  EXPECT_EQ(listener.take().size(), 0U);
}

TEST_F(LocalMeeting, TakesNoOtherUserForRankZero) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const FileDescriptor stranger =
      as_another_user([](int socket, const sockaddr* name, socklen_t size) {
        return ::bind(socket, name, size) + ::listen(socket, 1);
      });
  EXPECT_THAT(error_of([&] { meet_supervisor(environment, "", 5); }),
              HasSubstr("another user listens in place of rank 0"));
  EXPECT_THAT(error_of([&] { AgentListener(environment, "", 5); }), HasSubstr("another job"));
}

TEST_F(LocalMeeting, IsOfRanksOnOneHost) {
  EXPECT_EQ(error_of([&] { ensure_one_host(environment); }), "no ConfigError");
  environment.master_address = "localhost";
  EXPECT_EQ(error_of([&] { ensure_one_host(environment); }), "no ConfigError");
  environment.master_address = "192.0.2.1";  // reserved for documentation (RFC 5737)
  EXPECT_THAT(error_of([&] { ensure_one_host(environment); }),
              AllOf(HasSubstr("MASTER_ADDR=192.0.2.1"), HasSubstr(kSecretLine)));
  environment.master_address = "127.0.0.1";
  environment.several_hosts = "LOCAL_WORLD_SIZE=2 but WORLD_SIZE=4";
  EXPECT_THAT(error_of([&] { ensure_one_host(environment); }),
              AllOf(HasSubstr("LOCAL_WORLD_SIZE=2"), HasSubstr(kSecretLine)));
}

}  // namespace
}  // namespace ddpbench::bench
