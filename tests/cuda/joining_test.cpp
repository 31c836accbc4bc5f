// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that join late. On the stand-in.
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/runtime/cuda_device.h"
#include "parallel/comm/comm_module.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {
namespace {

TEST(Joining, WaitsForALateRank) {
  run_processes(2, [](Store& store, int rank) {
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    check(make_nccl(store, rank, 2, *device, {})->size() == 2, "another communicator");
  }).expect_success();
}

// As dp's replicas do.
TEST(Joining, ThreadsOfOneProcessMeetInAStoreOfTheirs) {
  const auto store = make_local_store();
  std::vector<std::thread> threads;
  std::array<float, 2> sums{};
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = make_cuda_device({.index = rank, .ordinal = 0});
      const auto world = make_nccl(*store, rank, 2, *device, {});
      const Buffer data = device->allocate(sizeof(float), MemoryCategory::communication);
      const auto stream = device->make_stream();
      float& sum = sums[static_cast<std::size_t>(rank)] = 1;
      const BufferView host{reinterpret_cast<std::byte*>(&sum), sizeof sum};
      device->copy(*stream, data.view().slice(0, sizeof sum), host);
      world->all_reduce({data.data(), 1}, ReduceOp::sum, {.after = stream.get()}).wait(*stream);
      device->copy(*stream, host, data.view().slice(0, sizeof sum));
      stream->synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, ::testing::Each(2));
}

TEST(Joining, EndsAtItsDeadline) {
  const Outcome outcome = run_processes(1, [](Store& store, int) {
    const auto device = make_cuda_device({.index = 1, .ordinal = 0});
    make_nccl(store, 1, 2, *device, {.timeout_s = 0.25});
  });
  EXPECT_THAT(outcome.errors[0], ::testing::AllOf(::testing::HasSubstr("/nccl_id'"),
                                                  ::testing::HasSubstr("within 0.25 s")));
}

}  // namespace
}  // namespace ddpbench::comm::testing
