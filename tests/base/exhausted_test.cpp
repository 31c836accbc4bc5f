// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors that tell of a limit of the system.
#include "base/exhausted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace ddpbench {
namespace {

using testing::HasSubstr;

TEST(Exhausted, NamesTheLimitAndItsHeight) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::string height =
      limit.rlim_cur == RLIM_INFINITY ? "unknown" : std::to_string(limit.rlim_cur);
  EXPECT_THAT(exhausted_limit(EMFILE), testing::AllOf(HasSubstr(height), HasSubstr("(ulimit -n)")));
  EXPECT_THAT(exhausted_limit(EAGAIN), HasSubstr("(ulimit -u)"));
  EXPECT_THAT(exhausted_limit(ENOMEM), HasSubstr("no memory"));
  EXPECT_EQ(exhausted_limit(EINVAL), "");
}

TEST(Exhausted, OtherErrorsKeepTheirKind) {
  EXPECT_THROW(throw_system_error<CommError>("no socket", EMFILE), UnavailableError);
  EXPECT_THROW(throw_system_error<CommError>("no socket", EACCES), CommError);
}

TEST(Failure, OfTheStandardLibraryTellsWhatWasExhausted) {
  const Failure memory = failure_of(std::bad_alloc());
  EXPECT_EQ(memory.kind, "unavailable");
  EXPECT_EQ(memory.exit_code, 3);
  EXPECT_THAT(memory.message, HasSubstr("no memory"));
  const Failure thread =
      failure_of(std::system_error(EAGAIN, std::generic_category(), "no thread"));
  EXPECT_EQ(thread.exit_code, 3);
  EXPECT_THAT(thread.message, testing::AllOf(HasSubstr("no thread"), HasSubstr("ulimit -u")));
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
