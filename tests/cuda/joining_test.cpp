// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that join late. On the stand-in.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "kernels/runtime/cuda_device.h"
#include "parallel/comm/cuda_comm.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

// Work before the join, above all making a context, may take longer than an operation.
TEST(Joining, HasMoreTimeThanAnOperation) {
  run_processes(2, [](Store& store, int rank) {
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    const auto world = make_nccl(store, rank, 2, *device, {.timeout_s = 0.2});
    check(world->size() == 2 && world->timeout_s() == 0.2, "another communicator");
  }).expect_success();
}

// Rank 1 joins when rank 0 has said that it waits.
TEST(Joining, TellsThatItWaits) {
  run_processes(2, [](Store& store, int rank) {
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    if (rank == 1) store.get("waits", 60);
    const WorldOptions options{.joining = [&] { store.set("waits", "1"); }};
    check(make_nccl(store, rank, 2, *device, options)->size() == 2, "another communicator");
  }).expect_success();
}

TEST(Joining, EndsWithItsPatience) {
  const Outcome outcome = run_processes(1, [](Store& store, int) {
    const auto device = make_cuda_device({.index = 1, .ordinal = 0});
    make_nccl(store, 1, 2, *device, {.timeout_s = 0.1, .join_patience_s = 0.25});
  });
  EXPECT_THAT(outcome.errors[0], ::testing::AllOf(::testing::HasSubstr("/nccl_id'"),
                                                  ::testing::HasSubstr("within 0.25 s")));
}

}  // namespace
}  // namespace ddpbench::comm::testing
