// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank inside NCCL's first call. The call connects the rank to its peers and returns when they
// have called, too. On the stand-in, whose group end hangs as NCCL's does (host/host_nccl.cpp).
#include <fmt/format.h>
#include <gmock/gmock.h>

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

TEST_P(NcclConnects, AndTheWatchdogEndsTheCallAtItsDeadline) {
  const Outcome outcome =
      run([](Communicator&) { std::this_thread::sleep_for(std::chrono::seconds(5)); }, 1);
  EXPECT_THAT(outcome.errors[0],
              AllOf(HasSubstr("rank 0 of 2: all_reduce of 4096 bytes: deadline passed"),
                    HasSubstr("waiting for its peers; the call has not returned")));
}

TEST_P(NcclConnects, AndAnAbortReachesIt) {
  const Outcome outcome = run_cuda_processes(
      CudaBackend::nccl, 2,
      [](Communicator& c, Device& device) {
        if (c.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(3));
        std::thread other([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          c.abort("the user changed his mind");
        });
        try {
          call(c, device);
        } catch (...) {
          other.join();
          throw;
        }
        other.join();
      },
      60);
  EXPECT_THAT(outcome.errors[0], HasSubstr("aborted by rank 0: the user changed his mind"));
}

INSTANTIATE_TEST_SUITE_P(Calls, NcclConnects, ::testing::Bool(), [](const auto& tested) {
  return std::string(tested.param ? "InAGroup" : "Alone");
});

}  // namespace
}  // namespace ddpbench::comm::testing
