// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communication of CUDA devices through host memory, with the module's own sources on the stand-in.
// Its streams run beside the host, so that a missing order, and a call that blocks its caller,
// show. Ranks are processes. Some are on CUDA devices; the others use the host's communicator
// itself, as workers and servers of ps do.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/runtime/cuda/cuda_stream.h"
#include "kernels/runtime/cuda_device.h"
#include "parallel/comm/comm_module.h"
#include "tests/comm/conformance.h"
#include "tests/comm/rank_runner.h"
#include "tests/cuda/host/host_stream.h"
#include "tests/cuda/host_communicator.h"

namespace ddpbench::comm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A rank. `device` is null for a rank without one.
struct Rank {
  Communicator& world;
  Device* device = nullptr;
  Store& store;
};

struct World {
  int size;
  int on_devices;  // the first ranks
  bool registered = false;
  bool asynchronous = true;
};

Outcome run_world(const World& world, const std::function<void(Rank)>& function,
                  double timeout_s = 60) {
  return run_processes(world.size, [&](Store& store, int rank) {
    WorldOptions options = test_options();
    options.timeout_s = timeout_s;
    auto host = make_shm(store, rank, world.size, options);
    if (rank >= world.on_devices) return function({*host, nullptr, store});
    test::waits_for_streams() = !world.asynchronous;
    const auto device = make_cuda_device({.index = rank, .ordinal = 0});
    const auto staged = make_staged(std::move(host), *device);
    function({*staged, device.get(), store});
  });
}

// Worker 0 on a device and server 1 without one.
constexpr World kPair{.size = 2, .on_devices = 1};

// Floats of device memory that the tests read and write through the stream.
class DeviceFloats {
 public:
  DeviceFloats(Device& device, std::size_t count, float value = 0)
      : device_(device),
        stream_(device.make_stream()),
        memory_(device.allocate(count * sizeof(float), MemoryCategory::communication,
                                Sharing::mappable)) {
    write(std::vector<float>(count, value));
  }
  void write(std::vector<float> values) {
    device_.copy(*stream_, memory_.view().slice(0, values.size() * sizeof(float)), bytes(values));
    stream_->synchronize();
  }
  std::vector<float> read(std::size_t count) {
    std::vector<float> values(count);
    device_.copy(*stream_, bytes(values), memory_.view().slice(0, count * sizeof(float)));
    stream_->synchronize();
    return values;
  }
  Elements elements(std::size_t first, std::size_t count) const {
    return {reinterpret_cast<float*>(memory_.data()) + first, count, DataType::fp32};
  }
  const Buffer& buffer() const { return memory_; }
  Stream& stream() { return *stream_; }

 private:
  static BufferView bytes(std::vector<float>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
  }
  Device& device_;
  std::unique_ptr<Stream> stream_;
  Buffer memory_;
};

template <typename F>
std::string error_of(F&& function) {
  try {
    function();
  } catch (const CommTimeout& error) {
    return fmt::format("timeout: {}", error.what());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void check_has(const std::string& text, const std::string& part) {
  check(text.find(part) != std::string::npos, fmt::format("'{}' is not in '{}'", part, text));
}

class StagedConformance : public ::testing::TestWithParam<World> {
 protected:
  static void on_all_ranks(void (*check)(Communicator&, bool)) {
    run_world(GetParam(), [&](Rank rank) {
      if (rank.device == nullptr) return check(rank.world, GetParam().registered);
      check(*make_host_communicator(rank.world, *rank.device), GetParam().registered);
    }).expect_success();
  }
};

TEST_P(StagedConformance, AllReduce) { on_all_ranks(check_all_reduce_for_every_count); }
TEST_P(StagedConformance, AllReduceOfEveryType) { on_all_ranks(check_all_reduce_of_every_type); }
TEST_P(StagedConformance, AllReduceElsewhere) {
  on_all_ranks(check_all_reduce_where_a_buffer_does_not_begin);
}
TEST_P(StagedConformance, Reduce) { on_all_ranks(check_reduce); }
TEST_P(StagedConformance, Broadcast) { on_all_ranks(check_broadcast); }
TEST_P(StagedConformance, AllGather) { on_all_ranks(check_all_gather); }
TEST_P(StagedConformance, ReduceScatter) { on_all_ranks(check_reduce_scatter); }
TEST_P(StagedConformance, ScatterAndGather) { on_all_ranks(check_scatter_and_gather); }
TEST_P(StagedConformance, MixedMemory) { on_all_ranks(check_mixed_memory); }
TEST_P(StagedConformance, BitIdentical) { on_all_ranks(check_all_reduce_is_bit_identical); }

TEST_P(StagedConformance, GroupsAndSplit) {
  run_world(GetParam(), [](Rank rank) {
    constexpr std::size_t kCount = 200'003;  // of several segments
    std::unique_ptr<Communicator> wrapped;
    if (rank.device != nullptr) wrapped = make_host_communicator(rank.world, *rank.device);
    Communicator& c = wrapped ? *wrapped : rank.world;
    std::vector<float> out(kCount, static_cast<float>(c.rank())), in(kCount);
    c.group_start();
    const Work send = c.send({out.data(), kCount}, (c.rank() + 1) % c.size());
    const Work recv = c.recv({in.data(), kCount}, (c.rank() + c.size() - 1) % c.size());
    c.group_end();
    recv.synchronize();
    send.synchronize();
    const auto left = static_cast<float>((c.rank() + c.size() - 1) % c.size());
    check(in.front() == left && in.back() == left, "a wrong message");
    check(c.backend() == "shm", "another backend than the host's");
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(Worlds, StagedConformance,
                         ::testing::Values(World{2, 1, false}, World{2, 1, true},
                                           World{3, 2, false}, World{3, 2, true}, World{3, 3, true},
                                           World{3, 2, true, false}),
                         [](const auto& tested) {
                           const World& world = tested.param;
                           return fmt::format("{}Of{}{}{}", world.on_devices, world.size,
                                              world.registered ? "Registered" : "",
                                              world.asynchronous ? "" : "Inline");
                         });

// The server sends only when it hears that the worker's host has queued all its work.
TEST(StagedCommunicator, WaitingOrdersTheStreamAndDoesNotBlockTheHost) {
  run_world(kPair, [](Rank rank) {
    constexpr std::size_t kCount = 30'000;
    if (rank.device == nullptr) {
      std::vector<float> values(kCount, 7);
      rank.store.get("queued", 60);
      rank.world.send({values.data(), kCount}, 0).synchronize();
      rank.world.recv({values.data(), kCount}, 0).synchronize();
      return check(values.front() == 7 && values.back() == 7, "sent before it was received");
    }
    DeviceFloats memory(*rank.device, kCount);
    const Work recv = rank.world.recv(memory.elements(0, kCount), 1, {.after = &memory.stream()});
    recv.wait(memory.stream());
    // The send follows the stream, so it follows what was received.
    const Work send = rank.world.send(memory.elements(0, kCount), 1, {.after = &memory.stream()});
    rank.store.set("queued", "");
    send.synchronize();
    recv.synchronize(deadline_after(0));
  }).expect_success();
}

// The stream's work before the call must be part of the message.
TEST(StagedCommunicator, CallsStartAfterTheStreamThatTheyAreGiven) {
  run_world(kPair, [](Rank rank) {
    constexpr std::size_t kCount = 1000;
    if (rank.device == nullptr) {
      std::vector<float> values(kCount);
      rank.world.recv({values.data(), kCount}, 0).synchronize();
      return check(values.front() == 3 && values.back() == 3, "sent before it was written");
    }
    DeviceFloats memory(*rank.device, kCount), source(*rank.device, kCount, 3);
    Stream& stream = memory.stream();
    static_cast<void>(test::queue(cuda::native_stream(stream), [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }));
    rank.device->copy(stream, memory.buffer().view(), source.buffer().view());
    rank.world.send(memory.elements(0, kCount), 1, {.after = &stream}).synchronize();
  }).expect_success();
}

// Borrowed memory is reused from call to call, for larger and smaller ones.
TEST(StagedCommunicator, MovesMemoryThatIsNotRegistered) {
  run_world(kPair, [](Rank rank) {
    constexpr std::size_t kSmall = 10, kLarge = 20'000;
    constexpr int kMessages = 40;
    const auto count = [](int m) { return m % 3 == 0 ? kLarge : kSmall; };
    if (rank.device == nullptr) {
      for (int m = 0; m < kMessages; ++m) {
        std::vector<float> values(count(m));
        rank.world.recv({values.data(), values.size()}, 0).synchronize();
        const auto expected = static_cast<float>(m);
        check(values.front() == expected && values.back() == expected, "another message's values");
      }
      return;
    }
    std::vector<std::unique_ptr<DeviceFloats>> memory;
    for (int m = 0; m < kMessages; ++m) {
      memory.push_back(std::make_unique<DeviceFloats>(*rank.device, kLarge, static_cast<float>(m)));
    }
    std::vector<Work> works;
    for (int m = 0; m < kMessages; ++m) {
      const DeviceFloats& own = *memory[static_cast<std::size_t>(m)];
      works.push_back(rank.world.send(own.elements(0, count(m)), 1));
    }
    for (const Work& work : works) work.synchronize();
  }).expect_success();
}

// Neighbours in one registered buffer, sent and received at different times, stay apart. The memory
// beside them is not touched.
TEST(StagedCommunicator, MovesPartsOfRegisteredBuffers) {
  run_world(kPair, [](Rank rank) {
    constexpr std::size_t kCount = 5000, kPart = 1250;
    if (rank.device == nullptr) {
      const Buffer buffer = mappable_buffer(kCount * sizeof(float));
      auto* const values = reinterpret_cast<float*>(buffer.data());
      rank.world.register_buffer(buffer);
      rank.world.recv({values + kPart, kPart}, 0).synchronize();
      rank.world.recv({values, kPart}, 0).synchronize();
      check(values[kPart] == static_cast<float>(kPart) && values[1] == 1, "wrong parts");
      for (std::size_t i = 0; i < kPart; ++i) values[i] += 10'000;
      rank.world.send({values, kPart}, 0).synchronize();
      return rank.world.deregister_buffer(buffer);
    }
    DeviceFloats memory(*rank.device, kCount);
    std::vector<float> expected(kCount);
    std::iota(expected.begin(), expected.end(), 0.0f);
    memory.write(expected);
    rank.world.register_buffer(memory.buffer());
    Stream& stream = memory.stream();
    const Work first = rank.world.send(memory.elements(kPart, kPart), 1, {.after = &stream});
    const Work second = rank.world.send(memory.elements(0, kPart), 1, {.after = &stream});
    rank.world.recv(memory.elements(2 * kPart, kPart), 1, {.after = &stream}).wait(stream);
    for (std::size_t i = 0; i < kPart; ++i) {
      expected[2 * kPart + i] = static_cast<float>(10'000 + i);
    }
    check(memory.read(kCount) == expected, "wrong values, or in the wrong place");
    first.synchronize(deadline_after(0));
    second.synchronize(deadline_after(0));
    rank.world.deregister_buffer(memory.buffer());
    check_has(error_of([&] { rank.world.deregister_buffer(memory.buffer()); }), "not registered");
  }).expect_success();
}

TEST(StagedCommunicator, TimesTellWhenThePeerCame) {
  run_world(kPair, [](Rank rank) {
    float value = 1;
    if (rank.device == nullptr) {
      rank.store.get("sent", 60);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return rank.world.recv({&value, 1}, 0).synchronize();
    }
    DeviceFloats memory(*rank.device, 1);
    const double before_s = rank.device->now_s();
    const Work send = rank.world.send(memory.elements(0, 1), 1);
    rank.store.set("sent", "");
    send.synchronize();
    const WorkTimes times = send.times();
    check(times.start_s >= before_s - 0.01 && times.end_s <= rank.device->now_s() + 0.01,
          "not in the device's clock");
    check(times.start_s <= times.arrived_s && times.arrived_s <= times.end_s, "out of order");
    check(times.arrived_s - times.start_s > 0.05, "the receiver came later than that");
  }).expect_success();
}

TEST(StagedCommunicator, APassedDeadlineOfAMessageLeavesItUnderWay) {
  run_world(kPair, [](Rank rank) {
    float value = 5;
    if (rank.device == nullptr) {
      rank.store.get("gave up", 60);
      return rank.world.send({&value, 1}, 0).synchronize();
    }
    DeviceFloats memory(*rank.device, 1);
    const Work recv = rank.world.recv(memory.elements(0, 1), 1);
    check_has(error_of([&] { recv.synchronize(deadline_after(0.05)); }),
              "timeout: rank 0 of 2: recv of 4 bytes from rank 1: deadline passed while waiting "
              "for rank 1");
    rank.store.set("gave up", "");
    recv.synchronize();
    check(memory.read(1).front() == 5, "wrong value");
  }).expect_success();
}

TEST(StagedCommunicator, TheHostsDeadlineEndsAllWorks) {
  run_world(
      kPair,
      [](Rank rank) {
        if (rank.device == nullptr) {
          // Makes no call; sees that the other rank gave up.
          rank.store.get("failed", 60);
          float value = 0;
          return check_has(error_of([&] {
                             rank.world.send({&value, 1}, 0).synchronize();
                           }),
                           "aborted by rank 0");
        }
        DeviceFloats memory(*rank.device, 2);
        const Work recv = rank.world.recv(memory.elements(0, 1), 1);
        const Work behind = rank.world.recv(memory.elements(1, 1), 1);
        const std::string error = error_of([&] { recv.synchronize(); });
        check_has(error, "timeout: rank 0 of 2: recv of 4 bytes from rank 1");
        check(error_of([&] { behind.synchronize(); }) == error, "another error behind");
        check(error_of([&] { rank.world.barrier(); }) == error, "a call after a failure");
        rank.store.set("failed", "");
      },
      0.3)
      .expect_success();
}

TEST(StagedCommunicator, AnAbortOfThePeerFreesTheStream) {
  run_world(kPair, [](Rank rank) {
    if (rank.device == nullptr) {
      rank.store.get("queued", 60);
      return rank.world.abort("the server has had enough");
    }
    DeviceFloats memory(*rank.device, 1);
    const Work recv = rank.world.recv(memory.elements(0, 1), 1);
    recv.wait(memory.stream());
    rank.store.set("queued", "");
    memory.stream().synchronize();
    check_has(error_of([&] { recv.synchronize(); }), "the server has had enough");
    check_has(error_of([&] { rank.world.group_start(); }), "the server has had enough");
  }).expect_success();
}

TEST(StagedCommunicator, AnAbortReachesThePeer) {
  run_world(kPair, [](Rank rank) {
    float value = 0;
    if (rank.device == nullptr) {
      return check_has(error_of([&] {
                         rank.world.recv({&value, 1}, 0).synchronize();
                       }),
                       "the worker has had enough");
    }
    DeviceFloats memory(*rank.device, 1);
    const Work recv = rank.world.recv(memory.elements(0, 1), 1);
    std::thread([&] { rank.world.abort("the worker has had enough"); }).join();
    check_has(error_of([&] { recv.synchronize(); }), "the worker has had enough");
  }).expect_success();
}

// A rank that fails aborts and ends at once.
TEST(StagedCommunicator, AnAbortReachesThePeerThoughTheRankEnds) {
  run_world(kPair, [](Rank rank) {
    float value = 0;
    if (rank.device != nullptr) return rank.world.abort("the worker has had enough");
    check_has(error_of([&] {
                rank.world.recv({&value, 1}, 0).synchronize();
              }),
              "the worker has had enough");
  }).expect_success();
}

TEST(StagedCommunicator, APeerThatIsKilledIsNamed) {
  const Outcome outcome = run_world(kPair, [](Rank rank) {
    if (rank.device == nullptr) {
      rank.store.get("queued", 60);
      ::kill(::getpid(), SIGKILL);
    }
    DeviceFloats memory(*rank.device, 1);
    const Work recv = rank.world.recv(memory.elements(0, 1), 1);
    rank.store.set("queued", "");
    check_has(error_of([&] { recv.synchronize(); }), "rank 1");
    check_has(error_of([&] { recv.wait(memory.stream()); }), "rank 1");
  });
  EXPECT_EQ(outcome.errors[0], "");
  EXPECT_EQ(outcome.errors[1], "signal 9");
}

// Inline, the failure comes while the call is still being queued.
class StagedStreams : public ::testing::TestWithParam<bool> {};

TEST_P(StagedStreams, CountsThatDifferAreRefused) {
  run_world({.size = 2, .on_devices = 1, .asynchronous = GetParam()}, [](Rank rank) {
    std::vector<float> values(3);
    if (rank.device == nullptr) {
      return check_has(error_of([&] {
                         rank.world.send({values.data(), 3}, 0).synchronize();
                       }),
                       "2");
    }
    DeviceFloats memory(*rank.device, 2);
    check_has(error_of([&] { rank.world.recv(memory.elements(0, 2), 1).synchronize(); }),
              "the message has 3 fp32, but 2 fp32 are expected");
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(Streams, StagedStreams, ::testing::Bool());

TEST(StagedCommunicator, EndsWhileAMessageIsUnderWay) {
  run_world(kPair, [](Rank rank) {
    if (rank.device == nullptr) {
      float value = 0;
      rank.store.get("queued", 60);
      return check_has(error_of([&] {
                         rank.world.recv({&value, 1}, 0).synchronize();
                       }),
                       "destroyed while operations ran");
    }
    // It outlives the communicator: the message needs it.
    const auto* const memory = new DeviceFloats(*rank.device, 1);
    static_cast<void>(rank.world.recv(memory->elements(0, 1), 1));
    rank.store.set("queued", "");
  }).expect_success();
}

TEST(StagedCommunicator, RefusesToBeRecordedAndWorksAfterwards) {
  run_world({.size = 1, .on_devices = 1}, [](Rank rank) {
    DeviceFloats memory(*rank.device, 1);
    memory.stream().begin_recording();
    check_has(error_of([&] { rank.world.barrier({.after = &memory.stream()}); }),
              "cannot be recorded into a CUDA graph");
    memory.stream().end_recording();
    rank.world.barrier({.after = &memory.stream()}).synchronize();
  }).expect_success();
}

}  // namespace
}  // namespace ddpbench::comm::testing
