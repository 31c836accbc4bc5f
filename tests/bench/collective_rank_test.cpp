// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank of `ddpbench comm` on an asynchronous device whose memory the host cannot touch. An
// access, or a copy that is not awaited, ends the test or shows in the results.
#include "bench/comm/collective_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "parallel/comm/communicator.h"
#include "tests/bench/queued_device.h"

namespace ddpbench::bench {
namespace {

using test::QueuedDevice;
constexpr std::size_t kRoom = std::size_t{40} << 20;  // more than staging memory

// Addresses that must not be read or written, and the place where their bytes really are.
struct Far {
  std::byte* address = nullptr;
  std::byte* bytes = nullptr;
  std::size_t size = 0;
};
std::vector<Far>& far_memory() {
  static std::vector<Far> all;
  return all;
}

std::byte* real(std::byte* address) {
  for (const Far& far : far_memory()) {
    if (address >= far.address && address < far.address + far.size) {
      return far.bytes + (address - far.address);
    }
  }
  return address;  // of host memory
}

class FarMemory {
 public:
  explicit FarMemory(std::size_t bytes) : bytes_(bytes) {
    void* const address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    address_ = static_cast<std::byte*>(address);
    far_memory().push_back({address_, bytes_.data(), bytes});
  }
  ~FarMemory() {
    std::erase_if(far_memory(), [this](const Far& far) { return far.address == address_; });
    ::munmap(address_, bytes_.size());
  }
  BufferView view() const noexcept { return {address_, bytes_.size()}; }

 private:
  std::vector<std::byte> bytes_;
  std::byte* address_ = nullptr;
};

// The queued device with memory that the host must not touch.
class FarDevice final : public Device {
 public:
  explicit FarDevice(unsigned seed) : queued_(seed) {}

  QueuedDevice& queued() { return queued_; }
  int copies = 0;        // number queued
  int calibrations = 0;  // number of the clock's calibrations
  std::optional<std::size_t> free;
  std::vector<std::size_t> allocated;  // bytes, in order

  DeviceKind kind() const noexcept override { return DeviceKind::cuda; }
  int index() const noexcept override { return 0; }
  std::string name() const override { return "far:0"; }
  std::string model() const override { return "far"; }
  int thread_count() const noexcept override { return 1; }
  void bind_calling_thread() override {}
  Buffer allocate(std::size_t bytes, MemoryCategory, Sharing) override {
    allocated.push_back(bytes);
    const auto memory = std::make_shared<FarMemory>(bytes);
    return {memory->view(), memory};
  }
  bool is_host_accessible() const noexcept override { return false; }
  Buffer allocate_staging(std::size_t bytes) override { return queued_.allocate_staging(bytes); }
  std::unique_ptr<Stream> make_stream() override { return queued_.make_stream(); }
  std::unique_ptr<Event> make_event() override { return queued_.make_event(); }
  void copy(Stream& stream, BufferView to, BufferView from) override {
    ++copies;
    queued_.copy(stream, {real(to.data), to.bytes}, {real(from.data), from.bytes});
  }
  double now_s() const override { return queued_.now_s(); }
  void calibrate_clock() override { ++calibrations; }
  std::optional<std::size_t> free_bytes() const override { return free; }
  MemoryUsage memory() const override { return {}; }

 private:
  QueuedDevice queued_;
};

class DoneWork final : public comm::WorkState {
 public:
  void wait(Stream&) override {}  // the work is queued on that stream
  void synchronize(std::optional<comm::Deadline>) override {}
  comm::WorkTimes times() const override { return {}; }
  bool is_done() override { return true; }
};

// The only rank of a world. Its results are its own contributions, after 10 pieces of device work.
// One element is wrong if the test asks for it.
class LonelyCommunicator final : public comm::Communicator {
 public:
  LonelyCommunicator() : Communicator(0, 1) {}

  bool wrong = false;
  QueuedDevice* keeps_up = nullptr;  // runs all work queued at once
  int barriers = 0, calls = 0;

  std::string backend() const override { return "lonely"; }
  double timeout_s() const noexcept override { return 1; }
  void group_start() override {}
  void group_end() override {}
  void register_buffer(const Buffer&) override {}
  void deregister_buffer(const Buffer&) override {}
  void abort(const std::string&) noexcept override { ++aborts(); }
  void check() override {}
  static int& aborts() {
    static int count = 0;
    return count;
  }

 protected:
  comm::Work issue(const comm::Operation& operation, const comm::CallOptions& options) override {
    const auto work = std::make_shared<DoneWork>();
    const bool is_barrier = operation.kind == comm::OperationKind::barrier;
    ++(is_barrier ? barriers : calls);
    if (options.after == nullptr) return comm::Work(work);
    for (int i = 0; i < (is_barrier ? 1 : 10); ++i) test::queue_work(*options.after, [] {});
    if (wrong && operation.kind == comm::OperationKind::all_reduce) {
      auto* const data = static_cast<std::byte*>(operation.in.data) + operation.in.bytes() - 1;
      test::queue_work(*options.after, [data] { *real(data) ^= std::byte{1}; });
    }
    while (keeps_up != nullptr && keeps_up->run_one()) {
    }
    return comm::Work(work);
  }
};

class FarRank : public testing::TestWithParam<unsigned> {
 protected:
  FarRank() {
    auto world = std::make_unique<LonelyCommunicator>();
    auto device = std::make_unique<FarDevice>(GetParam());
    world_ = world.get();
    device_ = device.get();
    rank_.emplace(std::move(world), std::move(device), kRoom);
    world_->barriers = 0;
  }

  CollectiveMemory memory(std::size_t bytes = kRoom) {
    return rank_->memory(bytes / sizeof(float), DataType::fp32, comm::ReduceOp::sum);
  }
  const CollectiveCase& all_reduce() { return *find_collective("all_reduce"); }

  LonelyCommunicator* world_ = nullptr;
  FarDevice* device_ = nullptr;
  std::optional<CollectiveRank> rank_;
};

TEST_P(FarRank, FillsAndChecksThroughStagingMemory) {
  EXPECT_EQ(rank_->verify(all_reduce(), memory()), 0u);
  world_->wrong = true;
  EXPECT_EQ(rank_->verify(all_reduce(), memory()), 1u);
}

TEST_P(FarRank, LeavesZerosBehind) {
  rank_->verify(all_reduce(), memory());
  const CollectiveMemory all = memory();
  for (std::byte* const data : {all.in, all.out}) {
    const std::byte* const bytes = real(data);
    EXPECT_TRUE(std::all_of(bytes, bytes + kRoom, [](std::byte b) { return b == std::byte{0}; }));
  }
}

// A call is ten pieces of a millisecond, for any number in flight. The barrier does not count.
TEST_P(FarRank, TimesTheDevicesWorkOfEachCall) {
  CallQueue& calls = rank_->calls();
  int added = 0;
  for (; !calls.full(); ++added) calls.add(all_reduce(), memory(4096));
  EXPECT_GT(added, 1);
  EXPECT_EQ(world_->barriers, added);
  const std::vector<CallSpan> spans = calls.finish();
  ASSERT_EQ(spans.size(), static_cast<std::size_t>(added));
  double end_s = 0;
  for (const CallSpan& span : spans) {
    EXPECT_NEAR(span.end_s - span.begin_s, 10e-3, 1e-9);
    EXPECT_GT(span.begin_s, end_s);
    EXPECT_FALSE(span.late);  // this device rests until the host waits
    end_s = span.end_s;
  }
  EXPECT_TRUE(calls.finish().empty());
}

// A device that is faster than the host first gets copies, as many as cover the delay.
TEST_P(FarRank, TellsCallsThatWaitedForTheHostAndKeepsTheDeviceBusyThen) {
  device_->queued().work_s = 1e-5;
  const auto run = [&] {
    device_->copies = 0;
    return rank_->run(all_reduce(), memory(4096)).late;
  };
  EXPECT_FALSE(run());
  const int before = device_->copies;
  world_->keeps_up = &device_->queued();
  EXPECT_TRUE(run());
  world_->keeps_up = nullptr;
  EXPECT_FALSE(run());
  // A call is ten pieces of work late, and a copy is one: it takes a quarter more than ten.
  EXPECT_EQ(device_->copies, before + 13);
}

// Where the most copies do not suffice, half as many calls are queued at a time, down to one. The
// next row begins with the full number.
TEST_P(FarRank, QueuesFewerCallsWhereTheMostCopiesDoNotCoverThem) {
  CallQueue& calls = rank_->calls();
  device_->queued().work_s = 10e-3;  // a copy is longer than all may be
  const auto batch = [&] {
    int added = 0;
    for (; !calls.full(); ++added) calls.add(all_reduce(), memory(4096));
    calls.finish();
    return added;
  };
  EXPECT_EQ(batch(), 10);  // in time
  EXPECT_EQ(batch(), 10);
  world_->keeps_up = &device_->queued();
  EXPECT_EQ(batch(), 10);
  for (const int expected : {5, 2, 1, 1}) EXPECT_EQ(batch(), expected);
  calls.begin_row();
  EXPECT_EQ(batch(), 10);
}

// A call alone may be late because libraries were loaded for it.
TEST_P(FarRank, QueuesAsManyCallsAfterOneAloneWasLate) {
  device_->queued().work_s = 10e-3;
  world_->keeps_up = &device_->queued();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rank_->run(all_reduce(), memory(4096)).late);
  int added = 0;
  for (; !rank_->calls().full(); ++added) rank_->calls().add(all_reduce(), memory(4096));
  EXPECT_EQ(added, 10);
  rank_->calls().finish();
}

TEST_P(FarRank, CalibratesTheClockBeforeARowAndEveryFiveSecondsBetweenBatches) {
  const int first = device_->calibrations;
  EXPECT_GT(first, 0);
  rank_->calls().begin_row();
  EXPECT_EQ(device_->calibrations, first + 1);
  rank_->run(all_reduce(), memory(4096));
  EXPECT_EQ(device_->calibrations, first + 1);
  device_->queued().clock_s += 5;
  rank_->run(all_reduce(), memory(4096));
  EXPECT_EQ(device_->calibrations, first + 2);
  rank_->run(all_reduce(), memory(4096));
  EXPECT_EQ(device_->calibrations, first + 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FarRank, testing::Values(1, 2, 3));

// A rank that shares its GPU with `sharers` - 1 others. The GPU has `free` bytes free.
class NewRank {
 public:
  NewRank(std::size_t free, int sharers) {
    device_->free = free;
    device_->queued().work_s = 0;
    FarDevice* const device = device_.get();
    CollectiveRank rank(std::make_unique<LonelyCommunicator>(), std::move(device_), kRoom, sharers);
    allocated = device->allocated;
  }
  std::vector<std::size_t> allocated;

 private:
  std::unique_ptr<FarDevice> device_ = std::make_unique<FarDevice>(1);
};

constexpr std::size_t kBusy = CallQueue::kCopiedBytes;

TEST(CollectiveRankMemory, IsCheckedForAllSharersBeforeAnyIsTaken) {
  const std::size_t needed = 2 * (2 * kRoom + 2 * kBusy);
  EXPECT_EQ(NewRank(needed, 2).allocated.size(), 4u);
  const int aborts = LonelyCommunicator::aborts();
  try {
    static_cast<void>(NewRank(needed - 1, 2));
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("2 ranks of 41943040 bytes"));
    EXPECT_THAT(error.what(), testing::HasSubstr("--sizes, or fewer --ranks"));
    EXPECT_THAT(error.what(), testing::HasSubstr("\n  communication "));
    EXPECT_THAT(error.what(), testing::HasSubstr("\n  workspace "));
  }
  EXPECT_EQ(LonelyCommunicator::aborts(), aborts + 1);  // the peers need not wait
}

}  // namespace
}  // namespace ddpbench::bench
