// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors: kinds, exit codes and messages.
#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <system_error>
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

TEST(SystemError, IsUnavailableWhereALimitIsReached) {
  EXPECT_THROW(throw_system_error<CommError>("no socket", EMFILE), UnavailableError);
  EXPECT_THROW(throw_system_error<CommError>("no socket", EACCES), CommError);
}

TEST(Failure, OfTheStandardLibraryIsUnavailableWhereALimitIsReached) {
  const Failure memory = failure_of(std::bad_alloc());
  EXPECT_EQ(memory.kind, "unavailable");
  EXPECT_EQ(memory.exit_code, 3);
  EXPECT_EQ(memory.message, "Cannot allocate memory");
  const Failure thread =
      failure_of(std::system_error(EAGAIN, std::generic_category(), "no thread"));
  EXPECT_EQ(thread.exit_code, 3);
  EXPECT_EQ(thread.message.find("no thread"), 0u);
}

TEST(Failure, OfTheProgramItselfStaysWhatItIs) {
  const Failure own = failure_of(CommTimeout("rank 1 waited"));
  EXPECT_EQ(own.kind, "timeout");
  EXPECT_EQ(own.message, "rank 1 waited");
  EXPECT_EQ(own.exit_code, 4);
  const Failure other = failure_of(std::logic_error("no"));
  EXPECT_EQ(other.kind, "internal");
  EXPECT_EQ(other.exit_code, 1);
}

}  // namespace
}  // namespace ddpbench
