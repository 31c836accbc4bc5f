// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communication through host memory between threads that share a GPU, and NCCL with one rank.
#include <gtest/gtest.h>

#include "base/error.h"
#include "parallel/comm/comm_module.h"
#include "tests/comm/conformance.h"
#include "tests/cuda/cuda_ranks.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/host_communicator.h"

namespace ddpbench::comm::testing {
namespace {

class CudaThreads : public test::GpuTest, public ::testing::WithParamInterface<int> {
 protected:
  void on_all_ranks(void (*check)(Communicator&, bool)) {
    run_cuda_threads(GetParam(), [&](Communicator& c, Device& device) {
      check(*make_host_communicator(c, device), false);
    }).expect_success();
  }
};

TEST_P(CudaThreads, AllReduce) { on_all_ranks(check_all_reduce_for_every_count); }
TEST_P(CudaThreads, AllReduceOfEveryType) { on_all_ranks(check_all_reduce_of_every_type); }
TEST_P(CudaThreads, Reduce) { on_all_ranks(check_reduce); }
TEST_P(CudaThreads, Broadcast) { on_all_ranks(check_broadcast); }
TEST_P(CudaThreads, AllGather) { on_all_ranks(check_all_gather); }
TEST_P(CudaThreads, ReduceScatter) { on_all_ranks(check_reduce_scatter); }
TEST_P(CudaThreads, ScatterAndGather) { on_all_ranks(check_scatter_and_gather); }
TEST_P(CudaThreads, BitIdentical) { on_all_ranks(check_all_reduce_is_bit_identical); }

TEST_P(CudaThreads, Messages) {
  run_cuda_threads(GetParam(), [](Communicator& c, Device& device) {
    const auto whole = make_host_communicator(c, device);
    float out = static_cast<float>(c.rank()), in = -1;
    whole->group_start();
    const Work send = whole->send({&out, 1}, (c.rank() + 1) % c.size());
    const Work recv = whole->recv({&in, 1}, (c.rank() + c.size() - 1) % c.size());
    whole->group_end();
    send.synchronize();
    recv.synchronize();
    check(in == static_cast<float>((c.rank() + c.size() - 1) % c.size()), "a wrong message");
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaThreads, ::testing::Values(1, 2, 3, 4));

using NcclAlone = test::GpuTest;

TEST_F(NcclAlone, Conforms) {
  const auto alone = make_nccl(*make_local_store(), 0, 1, device(), {});
  const auto host = make_host_communicator(*alone, device());
  for (const auto check : {check_all_reduce_for_every_count, check_reduce, check_broadcast,
                           check_all_gather, check_reduce_scatter, check_scatter_and_gather}) {
    check(*host, false);
  }
}

TEST_F(NcclAlone, IsReplayed) {
  const auto alone = make_nccl(*make_local_store(), 0, 1, device(), {});
  const Buffer data = upload(std::vector<float>(1000, 3.0f));
  alone->register_buffer(data);
  stream().begin_recording();
  const Work work = alone->all_reduce({data.data(), 1000}, ReduceOp::average, {.after = &stream()});
  work.wait(stream());
  auto recording = stream().end_recording();
  for (int i = 0; i < 3; ++i) {
    recording->replay(stream());
    stream().synchronize();
    EXPECT_NO_THROW(work.synchronize(deadline_after(0)));
    EXPECT_GE(work.times().end_s, work.times().start_s);
  }
  EXPECT_EQ(download<float>(data.view())[999], 3.0f);
  recording.reset();  // before the communicator, which waits for it
  alone->deregister_buffer(data);
}

}  // namespace
}  // namespace ddpbench::comm::testing
