// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a recording keeps of a step beside its order. On the stand-in.
#include <gmock/gmock.h>

#include "parallel/comm/comm_module.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/host/host_stream.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

using RecordedGraph = test::GpuTest;

// The stand-in's streams have priorities from 0 to -5.
TEST_F(RecordedGraph, KeepsThePriorityOfCommunication) {
  const auto alone = make_nccl(*make_local_store(), 0, 1, device(), {});
  const Buffer data = upload(std::vector<float>(1000, 3.0f));
  const Buffer copy = device().allocate(data.bytes(), MemoryCategory::workspace);
  stream().begin_recording();
  device().copy(stream(), copy.view(), data.view());
  alone->all_reduce({data.data(), 1000}, ReduceOp::sum, {.after = &stream()}).wait(stream());
  auto recording = stream().end_recording();
  recording->replay(stream());
  stream().synchronize();
  const std::vector<int>& priorities = test::launched_graph().priorities;
  EXPECT_EQ(priorities.front(), 0);
  EXPECT_THAT(priorities, Contains(-5));
  recording.reset();  // before the communicator, which waits for it
}

TEST_F(RecordedGraph, IsOnTheDeviceBeforeItsFirstReplay) {
  const Buffer data = upload(std::vector<float>(1000, 3.0f));
  const Buffer copy = device().allocate(data.bytes(), MemoryCategory::workspace);
  stream().begin_recording();
  device().copy(stream(), copy.view(), data.view());
  const auto recording = stream().end_recording();
  recording->replay(stream());
  EXPECT_THAT(test::launched_graph().priorities, ElementsAre(0));
  EXPECT_TRUE(test::launched_graph().was_uploaded);
  stream().synchronize();
}

}  // namespace
}  // namespace ddpbench::comm::testing
