// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of the CPU device: alignment, zeroing, residency, counting, exhaustion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/math.h"
#include "kernels/runtime/cpu_device.h"
#include "kernels/runtime/memory_needs.h"

namespace ddpbench {
namespace {

using testing::HasSubstr;

struct Request {
  std::size_t bytes;
  Sharing sharing;
};

std::string name_of(const testing::TestParamInfo<Request>& info) {
  return fmt::format("{}{}", info.param.bytes,
                     info.param.sharing == Sharing::mappable ? "Mappable" : "Private");
}

bool is_zero(BufferView view) {
  return std::ranges::all_of(view.as<unsigned char>(), [](unsigned char c) { return c == 0; });
}

std::size_t live(const Device& device, MemoryCategory category) {
  return device.memory().live_bytes[static_cast<std::size_t>(category)];
}
std::size_t peak(const Device& device, MemoryCategory category) {
  return device.memory().peak_bytes[static_cast<std::size_t>(category)];
}

class CpuMemory : public testing::TestWithParam<Request> {
 protected:
  Buffer allocate() {
    return device_->allocate(GetParam().bytes, MemoryCategory::activations, GetParam().sharing);
  }
  std::unique_ptr<Device> device_ = make_cpu_device({});
};

TEST_P(CpuMemory, IsAlignedToCacheLinesAndLargeBuffersToHugePages) {
  const Buffer buffer = allocate();
  ASSERT_NE(buffer.data(), nullptr);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  EXPECT_EQ(address % (GetParam().bytes >= kMiB ? 2 * kMiB : 64), 0U);
}

TEST_P(CpuMemory, HasTheSizeThatWasAskedFor) { EXPECT_EQ(allocate().bytes(), GetParam().bytes); }

TEST_P(CpuMemory, IsZeroedAlsoWhenItWasUsedBefore) {
  {
    const Buffer used = allocate();
    std::ranges::fill(used.view().as<unsigned char>(), 0xFF);
  }
  EXPECT_TRUE(is_zero(allocate().view()));
}

TEST_P(CpuMemory, CanBeWrittenToTheLastByte) {
  const Buffer buffer = allocate();
  std::ranges::fill(buffer.view().as<unsigned char>(), 0x5A);
  EXPECT_TRUE(std::ranges::all_of(buffer.view().as<unsigned char>(),
                                  [](unsigned char c) { return c == 0x5A; }));
}

TEST_P(CpuMemory, HasAHandleOnlyWhenItIsMappable) {
  const Buffer buffer = allocate();
  EXPECT_EQ(buffer.export_handle().empty(), GetParam().sharing == Sharing::process_private);
}

// A page fault makes the step wait for the kernel.
TEST_P(CpuMemory, IsBackedByPagesBeforeItIsUsed) {
  const Buffer buffer = allocate();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const first = buffer.data() - reinterpret_cast<std::uintptr_t>(buffer.data()) % page;
  const auto length = static_cast<std::size_t>(buffer.data() + buffer.bytes() - first);
  std::vector<unsigned char> resident((length + page - 1) / page);
  if (resident.empty()) return;
  ASSERT_EQ(::mincore(first, length, resident.data()), 0) << std::strerror(errno);
  EXPECT_TRUE(std::ranges::all_of(resident, [](unsigned char r) { return (r & 1U) != 0; }));
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CpuMemory,
    testing::Values(Request{0, Sharing::process_private}, Request{1, Sharing::process_private},
                    Request{4099, Sharing::process_private},
                    Request{100'003, Sharing::process_private},
                    Request{kMiB, Sharing::process_private},
                    Request{2 * kMiB - 1, Sharing::process_private},
                    Request{2 * kMiB, Sharing::process_private},
                    Request{5 * kMiB + 4097, Sharing::process_private},
                    Request{0, Sharing::mappable}, Request{1, Sharing::mappable},
                    Request{4099, Sharing::mappable}, Request{5 * kMiB + 4097, Sharing::mappable}),
    name_of);

TEST(CpuMemoryCounters, CountWhatWasAskedForRoundedToCacheLines) {
  const auto device = make_cpu_device({});
  const Buffer weights = device->allocate(100, MemoryCategory::weights);
  const Buffer empty = device->allocate(0, MemoryCategory::weights);
  EXPECT_EQ(live(*device, MemoryCategory::weights), 128U);
  EXPECT_EQ(live(*device, MemoryCategory::gradients), 0U);
  EXPECT_EQ(device->memory().total_live_bytes, 128U);
}

TEST(CpuMemoryCounters, KeepThePeakWhenBuffersAreFreed) {
  const auto device = make_cpu_device({});
  { const Buffer buffer = device->allocate(3 * kMiB, MemoryCategory::workspace); }
  EXPECT_EQ(live(*device, MemoryCategory::workspace), 0U);
  EXPECT_EQ(peak(*device, MemoryCategory::workspace), 3 * kMiB);
  EXPECT_EQ(device->memory().total_live_bytes, 0U);
}

TEST(CpuMemoryCounters, TakeThePeakOfTheSumRatherThanTheSumOfPeaks) {
  const auto device = make_cpu_device({});
  { const Buffer buffer = device->allocate(640, MemoryCategory::input); }
  {
    const Buffer buffer = device->allocate(1280, MemoryCategory::communication, Sharing::mappable);
  }
  EXPECT_EQ(peak(*device, MemoryCategory::input), 640U);
  EXPECT_EQ(peak(*device, MemoryCategory::communication), 1280U);
  EXPECT_EQ(device->memory().total_peak_bytes, 1280U);
}

TEST(CpuMemoryCounters, AreSeparateForEachDevice) {
  const auto first = make_cpu_device({});
  const auto second = make_cpu_device({.index = 1});
  const Buffer buffer = first->allocate(64, MemoryCategory::weights);
  EXPECT_EQ(second->memory().total_live_bytes, 0U);
}

TEST(CpuMemoryCounters, MayBeReadWhileTheDeviceAllocates) {
  const auto device = make_cpu_device({});
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) EXPECT_LE(device->memory().total_live_bytes, 64U);
  });
  for (int i = 0; i < 100; ++i) const Buffer buffer = device->allocate(64, MemoryCategory::input);
  done = true;
  reader.join();
}

TEST(CpuMemoryCounters, TolerateABufferThatOutlivesItsDevice) {
  Buffer buffer;
  { buffer = make_cpu_device({})->allocate(64, MemoryCategory::weights); }
  buffer.data()[63] = std::byte{1};
}

TEST(CpuMemoryExhaustion, NamesDeviceBytesAndCategory) {
  const auto device = make_cpu_device({.index = 3});
  constexpr std::size_t kPebibyte = std::size_t{1} << 50;
  for (const Sharing sharing : {Sharing::process_private, Sharing::mappable}) {
    try {
      const Buffer buffer = device->allocate(kPebibyte, MemoryCategory::activations, sharing);
      FAIL() << "a pebibyte was allocated";
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cpu:3"));
      EXPECT_THAT(error.what(), HasSubstr("1125899906842624 bytes"));
      EXPECT_THAT(error.what(), HasSubstr("activations"));
    }
  }
  EXPECT_EQ(device->memory().total_peak_bytes, 0U);
}

TEST(CpuMemoryPeaks, BeginAnewAtWhatLives) {
  const auto device = make_cpu_device({});
  const Buffer kept = device->allocate(1 * kMiB, MemoryCategory::weights);
  device->allocate(8 * kMiB, MemoryCategory::input);
  EXPECT_EQ(device->memory().total_peak_bytes, 9 * kMiB);
  device->reset_memory_peaks();
  EXPECT_EQ(device->memory().total_peak_bytes, kept.bytes());
  EXPECT_EQ(peak(*device, MemoryCategory::weights), kept.bytes());
  EXPECT_EQ(peak(*device, MemoryCategory::input), 0U);
}

// An odd size, many times that of the pieces in which zeros are copied.
TEST(CpuMemoryFill, ZeroesAllOfALargeBufferWithoutAnotherOfItsSize) {
  const auto device = make_cpu_device({});
  const auto stream = device->make_stream();
  const Buffer buffer = device->allocate(64 * kMiB + 52, MemoryCategory::optimizer);
  std::memset(buffer.view().data, 7, buffer.bytes());
  rusage before{}, after{};
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &before), 0);
  fill_with_zeros(*device, *stream, buffer);
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &after), 0);
  EXPECT_TRUE(is_zero(buffer.view()));
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 << 10);  // KiB
}

TEST(CpuMemoryExhaustion, RefusesASizeThatWouldWrapAround) {
  const auto device = make_cpu_device({});
  EXPECT_THROW(device->allocate(SIZE_MAX - 8, MemoryCategory::input), DeviceError);
}

}  // namespace
}  // namespace ddpbench
