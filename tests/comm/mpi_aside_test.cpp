// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Aside: calls on a thread of their own that fail or do not return in time.
#include "parallel/comm/mpi/mpi_aside.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "base/error.h"

namespace ddpbench::comm::testing {
namespace {

std::string error_of_wait(Aside& aside, double patience_s) {
  try {
    aside.wait({deadline_after(patience_s), {}}, "MPI_Test", "it waited");
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Aside, ThatFailsGivesEveryWaitTheSameError) {
  Aside aside([] { throw UnavailableError("no ranks"); });
  for (int i = 0; i < 2; ++i) EXPECT_EQ(error_of_wait(aside, 60), "no ranks");
  EXPECT_FALSE(has_left_thread());
}

TEST(Aside, ThatIsGivenUpCanBeAwaitedAgain) {
  std::promise<void> returns;
  Aside aside([&] { returns.get_future().wait(); });
  EXPECT_EQ(error_of_wait(aside, 0.01), "MPI_Test: deadline passed while it waited");
  EXPECT_TRUE(has_left_thread());
  returns.set_value();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(error_of_wait(aside, 60), "");
  EXPECT_FALSE(has_left_thread());
}

}  // namespace
}  // namespace ddpbench::comm::testing
