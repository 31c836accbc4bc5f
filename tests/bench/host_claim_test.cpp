// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_network.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

namespace ddpbench::bench {
namespace {

std::string own_name(const char* part) {
  return fmt::format("ddpbench-test-{}-{}", ::getpid(), part);
}

TEST(HostClaim, IsGivenToOneAtATime) {
  std::optional<HostClaim> first(own_name("a"));
  HostClaim second(own_name("a")), other(own_name("b"));
  EXPECT_TRUE(first->take());
  EXPECT_TRUE(first->take()) << "it still has it";
  EXPECT_FALSE(second.take());
  EXPECT_TRUE(other.take());
  first.reset();
  EXPECT_TRUE(second.take());
}

TEST(HostClaim, EndsWithItsProcess) {
  const std::string name = own_name("c");
  const pid_t child = ::fork();
  if (child == 0) ::_exit(HostClaim(name).take() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(HostClaim(name).take());
}

}  // namespace
}  // namespace ddpbench::bench
