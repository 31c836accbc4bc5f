// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

TEST(HostAddress, IsThatOfAnInterfaceByNameOrAddress) {
  EXPECT_EQ(find_interface("lo").address, "127.0.0.1");
  EXPECT_EQ(find_interface("127.0.0.1").address, "127.0.0.1");
  EXPECT_EQ(find_interface("lo").name, "lo");
  EXPECT_EQ(find_interface("127.0.0.1").name, "lo");
  EXPECT_TRUE(is_address("127.0.0.1"));
  for (const char* const name : {"lo", "", "127.0.0.1.eu", "10.0.0.0/8"}) {
    EXPECT_FALSE(is_address(name)) << name;
  }
}

TEST(HostAddress, NamesTheInterfacesThatThereAre) {
  for (const std::string wrong : {"no_such_interface", "192.0.2.1", "lo "}) {
    try {
      find_interface(wrong);
      ADD_FAILURE() << wrong;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("--interface=" + wrong));
      EXPECT_THAT(error.what(), testing::HasSubstr("lo (127.0.0.1)"));
    }
  }
}

TEST(HostAddress, IsTheOneFromWhichAnotherIsReached) {
  EXPECT_EQ(address_towards("localhost", 5), "127.0.0.1");
  EXPECT_THROW(address_towards("no.such.host.invalid", 0.1), ConfigError);
}

}  // namespace
}  // namespace ddpbench::bench
