// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "tests/cuda/gpu.h"

namespace ddpbench {
namespace {

using CudaRuntime = test::GpuTest;

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST_F(CudaRuntime, MemoryIsZeroedAndCounted) {
  const Buffer buffer = device().allocate(1000, MemoryCategory::weights);
  EXPECT_THAT(download<std::uint8_t>(buffer.view()), testing::Each(0));
  const MemoryUsage usage = device().memory();
  EXPECT_EQ(usage.live_bytes[static_cast<std::size_t>(MemoryCategory::weights)], 1024u);
  EXPECT_GE(device().driver_memory().value().used_bytes, 1024u);
}

TEST_F(CudaRuntime, CopiesThereAndBack) {
  const std::vector<float> values = numbers(12345);
  EXPECT_EQ(download<float>(upload(values).view()), values);
}

TEST_F(CudaRuntime, OutOfMemoryNamesBytesAndCategory) {
  try {
    device().allocate(std::size_t{1} << 50, MemoryCategory::activations);
    FAIL() << "allocated a pebibyte";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1125899906842624 bytes for activations"));
  }
  EXPECT_NO_THROW(device().allocate(1024, MemoryCategory::activations));
}

TEST_F(CudaRuntime, EventsFollowTheHostsClock) {
  const auto first = device().make_event();
  const auto second = device().make_event();
  EXPECT_FALSE(first->reached());
  device().calibrate_clock();
  const double before = device().now_s();
  stream().record(*first);
  const std::vector<float> values = numbers(1 << 22);
  const Buffer buffer = upload(values);
  stream().record(*second);
  stream().synchronize();
  const double after = device().now_s();
  EXPECT_TRUE(first->reached());
  // The calibration is accurate to some microseconds.
  EXPECT_GT(first->time_s(), before - 50e-6);
  EXPECT_GT(second->time_s(), first->time_s());
  EXPECT_LT(second->time_s(), after + 50e-6);
}

TEST_F(CudaRuntime, OneStreamWaitsForAnother) {
  const auto other = device().make_stream();
  const auto event = device().make_event();
  Buffer staging = device().allocate_staging(1 << 24);
  Buffer first = device().allocate(1 << 24, MemoryCategory::workspace);
  Buffer second = device().allocate(1 << 24, MemoryCategory::workspace);
  staging.view().as<std::uint8_t>()[(1 << 24) - 1] = 7;
  device().copy(stream(), first.view(), staging.view());
  stream().record(*event);
  other->wait(*event);
  device().copy(*other, second.view(), first.view());
  other->synchronize();
  EXPECT_EQ(download<std::uint8_t>(second.view()).back(), 7);
}

TEST_F(CudaRuntime, ARecordingRunsWhenItIsReplayed) {
  const std::vector<float> values = numbers(1024);
  const Buffer from = upload(values);
  const Buffer to = device().allocate(from.bytes(), MemoryCategory::workspace);
  const auto event = device().make_event();
  ASSERT_TRUE(stream().can_record());
  stream().begin_recording();
  device().copy(stream(), to.view(), from.view());
  stream().record(*event);
  const auto recording = stream().end_recording();
  EXPECT_EQ(download<float>(to.view()).front(), 0);
  const double before = device().now_s();
  recording->replay(stream());
  stream().synchronize();
  EXPECT_EQ(download<float>(to.view()), values);
  EXPECT_TRUE(event->reached());
  EXPECT_GT(event->time_s(), before - 1e-3);
}

}  // namespace
}  // namespace ddpbench
