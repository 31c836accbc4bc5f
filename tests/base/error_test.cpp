// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors: kinds, exit codes and messages.
#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddpbench {
namespace {

using testing::HasSubstr;

TEST(Error, CarriesTheExitCodeAndKindThatReportsShow) {
  EXPECT_EQ(ConfigError("x").exit_code(), 2);
  EXPECT_EQ(UnavailableError("x").exit_code(), 3);
  EXPECT_EQ(DeviceError("x").exit_code(), 1);
  EXPECT_EQ(CommError("x").exit_code(), 4);
  EXPECT_EQ(VerificationError("x").exit_code(), 5);
  EXPECT_EQ(InternalError("x").exit_code(), 1);
  EXPECT_STREQ(CommError("x").kind(), "comm");
  EXPECT_STREQ(VerificationError("x").kind(), "verification");
}

TEST(Error, TellsADeadlineFromALostPeerButHandlesBothAsCommunication) {
  try {
    throw CommTimeout("rank 1 of 2 waited");
  } catch (const CommError& error) {
    EXPECT_STREQ(error.kind(), "timeout");
    EXPECT_EQ(error.exit_code(), 4);
  }
}

TEST(Ensure, PassesSilentlyWhenTheConditionHolds) {
  EXPECT_NO_THROW(ensure(true, "never seen {}", 1));
}

TEST(Ensure, ThrowsTheFormattedMessageWithThePlaceOfTheCheck) {
  const int line = __LINE__ + 2;
  try {
    ensure(1 > 2, "{} buckets of {}", 3, "gradients");
    FAIL() << "ensure did not throw";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("3 buckets of gradients"));
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("error_test.cpp:{}", line)));
  }
}

}  // namespace
}  // namespace ddpbench
