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

using Make = decltype(&make_nccl);

class Joining : public ::testing::TestWithParam<Make> {};

// Work before the join, above all making a context, may take longer than an operation.
TEST_P(Joining, HasMoreTimeThanAnOperation) {
  run_processes(2, [](Store& store, int rank) {
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    const auto world = GetParam()(store, rank, 2, *device, {.timeout_s = 0.2});
    check(world->size() == 2 && world->timeout_s() == 0.2, "another communicator");
  }).expect_success();
}

// Rank 1 joins when rank 0 has said that it waits.
TEST_P(Joining, TellsThatItWaits) {
  run_processes(2, [](Store& store, int rank) {
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    if (rank == 1) store.get("waits", 60);
    const CudaCommOptions options{.joining = [&] { store.set("waits", "1"); }};
    check(GetParam()(store, rank, 2, *device, options)->size() == 2, "another communicator");
  }).expect_success();
}

TEST_P(Joining, EndsWithItsPatience) {
  const Outcome outcome = run_processes(1, [](Store& store, int rank) {
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    GetParam()(store, rank, 2, *device, {.timeout_s = 0.1, .join_patience_s = 0.25});
  });
  EXPECT_THAT(outcome.errors[0],
              ::testing::AllOf(::testing::HasSubstr("/1'"), ::testing::HasSubstr("within 0.25 s")));
}

INSTANTIATE_TEST_SUITE_P(Backends, Joining, ::testing::Values(&make_nccl, &make_ipc),
                         [](const auto& tested) {
                           return std::string(tested.param == &make_nccl ? "Nccl" : "Ipc");
                         });

}  // namespace
}  // namespace ddpbench::comm::testing
