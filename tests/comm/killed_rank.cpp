// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/killed_rank.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

namespace ddpbench::comm::testing {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string meanwhile_name(const ::testing::TestParamInfo<Meanwhile>& tested) {
  switch (tested.param) {
    case Meanwhile::receive:
      return "OthersReceiveFromIt";
    case Meanwhile::reduce:
      return "OthersWaitInACollective";
    case Meanwhile::check:
      return "OthersOnlyCheck";
  }
  return "";
}

void expect_killed_rank_named(Meanwhile meanwhile, const ProcessRunner& run) {
  const Outcome outcome = run(3, [meanwhile](Communicator& c) {
    std::vector<float> data(50'000);
    c.barrier().synchronize();
    if (c.rank() == 1) {
      sleep_s(0.02);
      ::kill(::getpid(), SIGKILL);
    }
    if (meanwhile == Meanwhile::check) check_until_it_fails(c);
    if (meanwhile == Meanwhile::receive) {
      c.recv({data.data(), data.size()}, 1, kNow).synchronize();
    }
    c.all_reduce({data.data(), data.size()}, ReduceOp::sum).synchronize();
  });
  EXPECT_EQ(outcome.errors[1], "signal 9");
  for (const std::size_t survivor : {0U, 2U}) {
    EXPECT_THAT(outcome.errors[survivor], AllOf(HasSubstr("rank 1"), HasSubstr("has died")));
  }
}

}  // namespace ddpbench::comm::testing
