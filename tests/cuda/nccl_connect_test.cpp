// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank inside NCCL's first call. The call connects the rank to its peers and returns when they
// have called, too. On the stand-in, whose group end hangs as NCCL's does (host/host_nccl.cpp).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/cuda/cuda_ranks.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// There are two ranks. The first calls at once.
class NcclConnects : public ::testing::TestWithParam<bool> {
 protected:
  NcclConnects() { ::setenv(kVariable, "1", 1); }
  ~NcclConnects() override { ::unsetenv(kVariable); }

  // GetParam(): whether the call is in a group.
  static void call(Communicator& c, Device& device) {
    const Buffer data = device.allocate(4096, MemoryCategory::communication);
    if (GetParam()) c.group_start();
    const Work work = c.all_reduce({data.data(), 1024}, ReduceOp::sum);
    if (GetParam()) c.group_end();
    work.synchronize();
  }
  static Outcome run(const std::function<void(Communicator&)>& instead, double timeout_s) {
    return run_cuda_processes(
        CudaBackend::nccl, 2,
        [&](Communicator& c, Device& device) {
          if (c.rank() == 1) instead(c);
          call(c, device);
        },
        timeout_s);
  }

 private:
  static constexpr const char* kVariable = "NCCL_RUNTIME_CONNECT";
};

TEST_P(NcclConnects, AndAllCome) {
  run([](Communicator&) {}, 60).expect_success();
}

TEST_P(NcclConnects, AndTheWatchdogNamesARankThatDoesNotCome) {
  const Outcome outcome = run(
      [](Communicator& c) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (std::chrono::steady_clock::now() < end) {  // until the other rank gave up
          c.group_start();
          c.group_end();
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      },
      1);
  EXPECT_THAT(outcome.errors[0],
              AllOf(HasSubstr("rank 0 of 2: all_reduce of 4096 bytes: deadline passed"),
                    HasSubstr("rank 1, which did not come; the call has not returned")));
  EXPECT_THAT(outcome.errors[1], HasSubstr("aborted by rank 0"));
}

TEST_P(NcclConnects, AndAnAbortReachesIt) {
  const Outcome outcome = run(
      [](Communicator& c) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        c.abort("the user changed his mind");
      },
      60);
  for (const std::string& error : outcome.errors) {
    EXPECT_THAT(error, HasSubstr("aborted by rank 1: the user changed his mind"));
  }
}

TEST_P(NcclConnects, AndAPeerDies) {
  const Outcome outcome = run([](Communicator&) { ::kill(::getpid(), SIGKILL); }, 60);
  EXPECT_THAT(outcome.errors[0],
              AllOf(HasSubstr("all_reduce of 4096 bytes: rank 1 (pid"), HasSubstr("has died")));
  EXPECT_EQ(outcome.errors[1], "signal 9");
}

TEST_P(NcclConnects, AndAPeerLeavesWithoutACall) {
  const Outcome outcome =
      run([](Communicator&) { throw std::runtime_error("has other things to do"); }, 60);
  EXPECT_THAT(outcome.errors[0],
              HasSubstr("all_reduce of 4096 bytes: rank 1 has left the communicator"));
}

INSTANTIATE_TEST_SUITE_P(Calls, NcclConnects, ::testing::Bool(), [](const auto& tested) {
  return std::string(tested.param ? "InAGroup" : "Alone");
});

}  // namespace
}  // namespace ddpbench::comm::testing
