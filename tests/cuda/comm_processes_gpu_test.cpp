// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL and shm between processes that share a GPU. This process itself never calls CUDA.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/comm/conformance.h"
#include "tests/cuda/cuda_ranks.h"
#include "tests/cuda/host_communicator.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

struct World {
  CudaBackend backend;
  int size;
  bool registered;
};

std::string name_of(const ::testing::TestParamInfo<World>& tested) {
  const char* const backend = tested.param.backend == CudaBackend::nccl ? "Nccl" : "Staged";
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
};

void check_groups(Communicator& whole, bool) {
  constexpr std::size_t kCount = 2'000'003;  // of several segments
  std::vector<float> out(kCount, static_cast<float>(whole.rank())), in(kCount);
  const int before = (whole.rank() + whole.size() - 1) % whole.size();
  whole.group_start();
  const Work send = whole.send({out.data(), kCount}, (whole.rank() + 1) % whole.size());
  const Work recv = whole.recv({in.data(), kCount}, before);
  whole.group_end();
  recv.synchronize();
  send.synchronize();
  const auto left = static_cast<float>(before);
  check(in.front() == left && in.back() == left, "a wrong message");
}

struct NamedCheck {
  const char* name;
  void (*check)(Communicator&, bool registered);
};
constexpr NamedCheck kChecks[] = {
    {"AllReduce", check_all_reduce_for_every_count},
    {"AllReduceOfEveryType", check_all_reduce_of_every_type},
    {"AllReduceElsewhere", check_all_reduce_where_a_buffer_does_not_begin},
    {"Reduce", check_reduce},
    {"Broadcast", check_broadcast},
    {"AllGather", check_all_gather},
    {"ReduceScatter", check_reduce_scatter},
    {"ScatterAndGather", check_scatter_and_gather},
    {"MixedMemory", check_mixed_memory},
    {"BitIdentical", check_all_reduce_is_bit_identical},
    {"Groups", check_groups},
};

// Rethrows the error of a check with the check's name.
void run_checks(std::span<const NamedCheck> checks, Communicator& c, bool registered) {
  for (const NamedCheck& named : checks) {
    try {
      named.check(c, registered);
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", named.name, error.what()));
    }
  }
}

// The index of the first check that failed on any rank; checks.size() when no error names one.
std::size_t first_failed(std::span<const NamedCheck> checks, const Outcome& outcome) {
  for (std::size_t i = 0; i < checks.size(); ++i) {
    for (const std::string& error : outcome.errors) {
      if (error.starts_with(std::string(checks[i].name) + ": ")) return i;
    }
  }
  return checks.size();
}

// One set of processes runs all checks, since making a context on a GPU takes longer than most
// checks. After a failed check another set runs the rest.
TEST_P(CudaProcesses, Conform) {
  std::span<const NamedCheck> checks = kChecks;
  while (!checks.empty()) {
    const Outcome outcome = run([&](Communicator& c, Device& device) {
      run_checks(checks, *make_host_communicator(c, device), GetParam().registered);
    });
    outcome.expect_success();
    const std::size_t failed = first_failed(checks, outcome);
    if (failed == checks.size()) return;
    ADD_FAILURE() << checks[failed].name << " failed";
    checks = checks.subspan(failed + 1);
  }
}

// As in a training step, the host waits only in the last line.
TEST_P(CudaProcesses, ARecordedAllReduceIsReplayed) {
  if (GetParam().backend == CudaBackend::staged) GTEST_SKIP() << "the host's part is not recorded";
  run([](Communicator& c, Device& device) {
    constexpr std::size_t kCount = 3'000'001;
    const auto stream = device.make_stream();
    const Buffer data =
        device.allocate(kCount * sizeof(float), MemoryCategory::gradients, Sharing::mappable);
    if (GetParam().registered) c.register_buffer(data);
    const Elements elements{data.data(), kCount};
    // The first call runs unrecorded: there NCCL connects its ranks.
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
      const int sum = c.size() * (c.size() - 1) / 2 + c.size() * i;
      const auto expected = static_cast<float>(sum);
      check(host.front() == expected && host.back() == expected,
            fmt::format("replay {} gives {} and {}", i, host.front(), host.back()));
      const WorkTimes times = work.times();
      check(times.start_s > last_s && times.arrived_s >= times.start_s &&
                times.end_s >= times.arrived_s,
            "the times of a replay are out of order");
      last_s = times.end_s;
    }
    recording.reset();
    // After the replays the communicator still works.
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

// Makes no call meanwhile.
void wait_for_an_abort(Communicator& c, std::chrono::seconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (std::chrono::steady_clock::now() < end) {
    try {
      c.group_start();
      c.group_end();
    } catch (const CommError&) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// The host's communicator knows who is late, dead or calls something else; NCCL does not.
using CudaProcessesFail = CudaProcesses;

TEST_P(CudaProcessesFail, TheWatchdogNamesARankThatDoesNotCome) {
  const Outcome outcome = run(
      [](Communicator& c, Device& device) {
        const auto stream = device.make_stream();
        const Buffer data = device.allocate(4096, MemoryCategory::communication);
        c.barrier().synchronize(deadline_after(60));
        if (c.rank() == c.size() - 1) wait_for_an_abort(c, std::chrono::seconds(4));
        // Only the stream waits; the watchdog releases it.
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

TEST_P(CudaProcessesFail, AnAbortReachesAllRanks) {
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

// The rank died before any call.
TEST_P(CudaProcessesFail, CheckNoticesARankThatDied) {
  const int last = GetParam().size - 1;
  const Outcome outcome = run([&](Communicator& c, Device&) {
    if (c.rank() == last) ::kill(::getpid(), SIGKILL);
    check_until_it_fails(c);
  });
  EXPECT_EQ(outcome.errors.back(), "signal 9");
  for (int rank = 0; rank < last; ++rank) {
    EXPECT_THAT(outcome.errors[static_cast<std::size_t>(rank)],
                AllOf(HasSubstr(fmt::format("rank {} (pid", last)), HasSubstr("has died")));
  }
}

TEST_P(CudaProcessesFail, DifferentCallsAreNoticed) {
  const Outcome outcome = run([](Communicator& c, Device& device) {
    const Buffer data = device.allocate(4096, MemoryCategory::communication);
    const std::size_t count = c.rank() == 0 ? 1000 : 1001;
    c.all_reduce({data.data(), count}, ReduceOp::sum).synchronize();
  });
  EXPECT_THAT(outcome.errors, Each(HasSubstr("ranks disagree")));
}

// Over NCCL each rank sees its own deadline alone, or that another has given up for its.
TEST_P(CudaProcesses, ARankThatWaitsForOthersEndsAtItsDeadline) {
  if (GetParam().backend == CudaBackend::staged) GTEST_SKIP() << "see CudaProcessesFail";
  const Outcome outcome = run(
      [](Communicator& c, Device& device) {
        const Buffer data = device.allocate(4096, MemoryCategory::communication);
        c.barrier().synchronize(deadline_after(60));
        if (c.rank() + 1 < c.size()) {
          c.all_reduce({data.data(), 1024}, ReduceOp::sum).synchronize();
        } else {
          std::this_thread::sleep_for(std::chrono::seconds(5));
        }
      },
      2);
  EXPECT_EQ(outcome.errors.back(), "");
  const std::span waiting(outcome.errors.begin(), outcome.errors.size() - 1);
  EXPECT_THAT(waiting, Each(HasSubstr("all_reduce of 4096 bytes")));
  EXPECT_THAT(waiting, Contains(HasSubstr("waiting for its peers")));
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaProcesses,
                         ::testing::Values(World{CudaBackend::nccl, 2, false},
                                           World{CudaBackend::nccl, 3, true},
                                           World{CudaBackend::staged, 1, false},
                                           World{CudaBackend::staged, 2, false},
                                           World{CudaBackend::staged, 4, true}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Ranks, CudaProcessesFail,
                         ::testing::Values(World{CudaBackend::staged, 2, false},
                                           World{CudaBackend::staged, 4, false}),
                         name_of);

}  // namespace
}  // namespace ddpbench::comm::testing
