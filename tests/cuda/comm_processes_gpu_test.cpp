// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA ring, NCCL and the host's ring between processes that share a GPU. This process itself
// never calls CUDA.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "kernels/runtime/error.h"
#include "tests/comm/conformance.h"
#include "tests/cuda/cuda_ranks.h"
#include "tests/cuda/host_communicator.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

struct World {
  CudaBackend backend;
  int size;
  bool registered;
};

std::string name_of(const ::testing::TestParamInfo<World>& tested) {
  const char* const backend = tested.param.backend == CudaBackend::ring   ? "Ring"
                              : tested.param.backend == CudaBackend::nccl ? "Nccl"
                                                                          : "Staged";
  return fmt::format("{}{}{}", backend, tested.param.size,
                     tested.param.registered ? "Registered" : "");
}

class CudaProcesses : public ::testing::TestWithParam<World> {
 protected:
  void SetUp() override {
    static const std::string reason = why_no_gpu();
    if (!reason.empty()) GTEST_SKIP() << "needs a GPU: " << reason;
  }
  static Outcome run(const CudaRankFunction& function, double timeout_s = 60) {
    return run_cuda_processes(GetParam().backend, GetParam().size, function, timeout_s);
  }
  static void on_all_ranks(void (*check)(Communicator&, bool)) {
    run([&](Communicator& c, Device& device) {
      check(*make_host_communicator(c, device), GetParam().registered);
    }).expect_success();
  }
};

TEST_P(CudaProcesses, AllReduce) { on_all_ranks(check_all_reduce_for_every_count); }
TEST_P(CudaProcesses, AllReduceOfEveryType) { on_all_ranks(check_all_reduce_of_every_type); }
TEST_P(CudaProcesses, AllReduceElsewhere) {
  on_all_ranks(check_all_reduce_where_a_buffer_does_not_begin);
}
TEST_P(CudaProcesses, Reduce) { on_all_ranks(check_reduce); }
TEST_P(CudaProcesses, Broadcast) { on_all_ranks(check_broadcast); }
TEST_P(CudaProcesses, AllGather) { on_all_ranks(check_all_gather); }
TEST_P(CudaProcesses, ReduceScatter) { on_all_ranks(check_reduce_scatter); }
TEST_P(CudaProcesses, ScatterAndGather) { on_all_ranks(check_scatter_and_gather); }
TEST_P(CudaProcesses, MixedMemory) { on_all_ranks(check_mixed_memory); }
TEST_P(CudaProcesses, BitIdentical) { on_all_ranks(check_all_reduce_is_bit_identical); }

TEST_P(CudaProcesses, GroupsAndSplit) {
  run([](Communicator& c, Device& device) {
    constexpr std::size_t kCount = 2'000'003;  // of several segments
    const auto whole = make_host_communicator(c, device);
    std::vector<float> out(kCount, static_cast<float>(c.rank())), in(kCount);
    whole->group_start();
    const Work send = whole->send({out.data(), kCount}, (c.rank() + 1) % c.size());
    const Work recv = whole->recv({in.data(), kCount}, (c.rank() + c.size() - 1) % c.size());
    whole->group_end();
    recv.synchronize();
    send.synchronize();
    const auto left = static_cast<float>((c.rank() + c.size() - 1) % c.size());
    check(in.front() == left && in.back() == left, "a wrong message");
    const auto part = whole->split(c.rank() % 2, -c.rank());
    check_all_reduce_for_every_count(*part, false);
  }).expect_success();
}

// As a training step does it: nothing waits on the host but the last line.
TEST_P(CudaProcesses, ARecordedAllReduceIsReplayed) {
  if (GetParam().backend == CudaBackend::staged) GTEST_SKIP() << "the host's part is not recorded";
  run([](Communicator& c, Device& device) {
    constexpr std::size_t kCount = 3'000'001;
    const auto stream = device.make_stream();
    const Buffer data =
        device.allocate(kCount * sizeof(float), MemoryCategory::gradients, Sharing::mappable);
    if (GetParam().registered) c.register_buffer(data);
    const Elements elements{data.data(), kCount};
    // Once as it is: NCCL connects its ranks at the first call.
    c.all_reduce(elements, ReduceOp::sum, {.after = stream.get()}).wait(*stream);
    stream->synchronize();
    stream->begin_recording();
    const Work work = c.all_reduce(elements, ReduceOp::sum, {.after = stream.get()});
    work.wait(*stream);
    auto recording = stream->end_recording();
    std::vector<float> host(kCount);
    const BufferView view{reinterpret_cast<std::byte*>(host.data()), kCount * sizeof(float)};
    double last_s = 0;
    for (int i = 0; i < 5; ++i) {
      host.assign(kCount, static_cast<float>(c.rank() + i));
      device.copy(*stream, data.view().slice(0, view.bytes), view);
      recording->replay(*stream);
      device.copy(*stream, view, data.view().slice(0, view.bytes));
      stream->synchronize();
      const auto expected = static_cast<float>(c.size() * (c.size() - 1) / 2 + c.size() * i);
      check(host.front() == expected && host.back() == expected,
            fmt::format("replay {} gives {} and {}", i, host.front(), host.back()));
      const WorkTimes times = work.times();
      check(times.start_s > last_s && times.arrived_s >= times.start_s &&
                times.end_s >= times.arrived_s,
            "the times of a replay are out of order");
      last_s = times.end_s;
    }
    recording.reset();
    // The ring goes on as before.
    c.barrier().synchronize();
    if (GetParam().registered) c.deregister_buffer(data);
  }).expect_success();
}

template <typename F>
std::string error_of(F&& function) {
  try {
    function();
    return "no error";
  } catch (const CommTimeout& error) {
    return fmt::format("timeout: {}", error.what());
  } catch (const CommError& error) {
    return error.what();
  }
}

TEST_P(CudaProcesses, TheWatchdogNamesARankThatDoesNotCome) {
  if (GetParam().size < 2) GTEST_SKIP() << "needs two ranks";
  const Outcome outcome = run(
      [](Communicator& c, Device& device) {
        const auto stream = device.make_stream();
        const Buffer data = device.allocate(4096, MemoryCategory::communication);
        c.barrier().synchronize(deadline_after(60));
        if (c.rank() == c.size() - 1) std::this_thread::sleep_for(std::chrono::seconds(5));
        // Only the stream waits; the watchdog sets it free.
        const std::string error = error_of([&] {
          const Work work =
              c.all_reduce({data.data(), 1024}, ReduceOp::sum, {.after = stream.get()});
          work.wait(*stream);
          stream->synchronize();
          work.synchronize();
        });
        throw CommError(error);
      },
      2);
  for (int rank = 0; rank + 1 < GetParam().size; ++rank) {
    EXPECT_THAT(outcome.errors[static_cast<std::size_t>(rank)],
                AllOf(HasSubstr("all_reduce of 4096 bytes"),
                      HasSubstr(fmt::format("rank {}, which did not come", GetParam().size - 1))));
  }
  EXPECT_THAT(outcome.errors.back(), HasSubstr("aborted by rank"));
}

TEST_P(CudaProcesses, AnAbortReachesAllRanks) {
  if (GetParam().size < 2) GTEST_SKIP() << "needs two ranks";
  const Outcome outcome = run([](Communicator& c, Device& device) {
    const Buffer data = device.allocate(4096, MemoryCategory::communication);
    c.barrier().synchronize();
    if (c.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      c.abort("the user changed his mind");
      c.barrier().synchronize();
    } else {
      c.all_reduce({data.data(), 1024}, ReduceOp::sum).synchronize();
    }
  });
  EXPECT_THAT(outcome.errors, Each(HasSubstr("aborted by rank 0: the user changed his mind")));
}

TEST_P(CudaProcesses, DifferentCallsAreNoticed) {
  if (GetParam().size < 2) GTEST_SKIP() << "needs two ranks";
  const Outcome outcome = run([](Communicator& c, Device& device) {
    const Buffer data = device.allocate(4096, MemoryCategory::communication);
    const std::size_t count = c.rank() == 0 ? 1000 : 1001;
    c.all_reduce({data.data(), count}, ReduceOp::sum).synchronize();
  });
  EXPECT_THAT(outcome.errors, Each(HasSubstr("ranks disagree")));
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, CudaProcesses,
    ::testing::Values(World{CudaBackend::ring, 1, false}, World{CudaBackend::ring, 2, false},
                      World{CudaBackend::ring, 2, true}, World{CudaBackend::ring, 4, false},
                      World{CudaBackend::ring, 4, true}, World{CudaBackend::nccl, 2, false},
                      World{CudaBackend::staged, 2, false}, World{CudaBackend::staged, 4, true}),
    name_of);

}  // namespace
}  // namespace ddpbench::comm::testing
