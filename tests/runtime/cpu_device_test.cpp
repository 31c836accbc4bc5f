// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU device: streams, events, copies and where its threads run.
#include "kernels/runtime/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <array>
#include <thread>
#include <vector>

#include "base/error.h"
#include "kernels/runtime/cpu_topology.h"

namespace ddpbench {
namespace {

using testing::HasSubstr;

// The processors that the calling thread may run on.
std::vector<int> my_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

// Runs `body` on its own thread, so that its binding does not leak into other tests.
template <typename Body>
void on_own_thread(Body body) {
  std::thread(body).join();
}

BufferView as_view(auto& array) {
  return {reinterpret_cast<std::byte*>(array.data()), sizeof(array)};
}

TEST(CpuDevice, SaysWhatItIs) {
  const auto device = make_cpu_device({.index = 2, .threads = 3});
  EXPECT_EQ(device->kind(), DeviceKind::cpu);
  EXPECT_EQ(device->index(), 2);
  EXPECT_EQ(device->name(), "cpu:2");
  EXPECT_EQ(device->thread_count(), 3);
  EXPECT_FALSE(device->model().empty());
}

TEST(CpuDevice, RefusesThreadsAndCoresThatDisagree) {
  EXPECT_THROW(make_cpu_device({.threads = 0}), InternalError);
  EXPECT_THROW(make_cpu_device({.index = 0, .threads = 2, .cores = {0}}), InternalError);
}

TEST(CpuDevice, BindsItsLeadingThreadToItsCore) {
  const int core = read_cpu_topology().cores.back();
  on_own_thread([core] {
    make_cpu_device({.index = 0, .threads = 1, .cores = {core}})->bind_calling_thread();
    EXPECT_THAT(my_processors(), testing::ElementsAre(core));
    EXPECT_EQ(omp_get_max_threads(), 1);
  });
}

TEST(CpuDevice, LeavesAffinityAloneWithoutCores) {
  on_own_thread([] {
    const std::vector<int> before = my_processors();
    make_cpu_device({.threads = 2})->bind_calling_thread();
    EXPECT_EQ(my_processors(), before);
    EXPECT_EQ(omp_get_max_threads(), 2);
  });
}

TEST(CpuDevice, BindsEachMemberOfItsTeamToACoreOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not see the barriers of libgomp";
#endif
  const CpuPlacement placement = place_cpu_devices(read_cpu_topology(), 1, 2);
  const std::vector<int> cores = placement.device_cores.front();
  on_own_thread([cores] {
    make_cpu_device({.index = 0, .threads = 2, .cores = cores})->bind_calling_thread();
    std::array<std::vector<int>, 2> seen;
#pragma omp parallel num_threads(2)
    seen[static_cast<std::size_t>(omp_get_thread_num())] = my_processors();
    EXPECT_THAT(seen[0], testing::ElementsAre(cores[0]));
    EXPECT_THAT(seen[1], testing::ElementsAre(cores[1]));
  });
}

TEST(CpuDevice, NamesTheProcessorThatItCannotBindTo) {
  on_own_thread([] {
    try {
      make_cpu_device({.index = 1, .threads = 1, .cores = {100'000}})->bind_calling_thread();
      ADD_FAILURE() << "bound to processor 100000";
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cpu:1"));
      EXPECT_THAT(error.what(), HasSubstr("processor 100000"));
    }
  });
}

TEST(CpuDevice, CopiesBetweenItsBuffersAndHostMemory) {
  const auto device = make_cpu_device({});
  const auto stream = device->make_stream();
  std::array<int, 4> source{1, 2, 3, 4}, result{};
  const Buffer buffer = device->allocate(sizeof source, MemoryCategory::input);
  device->copy(*stream, buffer.view(), as_view(source));
  device->copy(*stream, as_view(result), buffer.view());
  stream->synchronize();
  EXPECT_EQ(result, source);
}

TEST(CpuDevice, RefusesToCopyBetweenSizesThatDiffer) {
  const auto device = make_cpu_device({});
  const auto stream = device->make_stream();
  std::array<int, 4> source{}, target{};
  EXPECT_THROW(device->copy(*stream, as_view(target), as_view(source).slice(0, 8)), InternalError);
  EXPECT_NO_THROW(device->copy(*stream, {}, {}));
}

TEST(CpuEvent, IsReachedAsSoonAsItIsRecorded) {
  const auto device = make_cpu_device({});
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  EXPECT_FALSE(event->reached());
  const double before_s = device->now_s();
  stream->record(*event);
  ASSERT_TRUE(event->reached());
  EXPECT_GE(event->time_s(), before_s);
  EXPECT_LE(event->time_s(), device->now_s());
}

TEST(CpuEvent, TakesTheTimeOfItsLastRecording) {
  const auto device = make_cpu_device({});
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  stream->record(*event);
  const double between_s = device->now_s();
  stream->record(*event);
  EXPECT_GE(event->time_s(), between_s);
}

TEST(CpuEvent, HasNoTimeBeforeItIsReached) {
  EXPECT_THROW(make_cpu_device({})->make_event()->time_s(), InternalError);
}

TEST(CpuStream, WaitsOnlyForEventsThatWereRecorded) {
  const auto device = make_cpu_device({}), other = make_cpu_device({.index = 1});
  const auto stream = device->make_stream(), other_stream = other->make_stream();
  const auto event = other->make_event();
  EXPECT_THROW(stream->wait(*event), InternalError);
  other_stream->record(*event);
  EXPECT_NO_THROW(stream->wait(*event));
  EXPECT_EQ(&stream->device(), device.get());
}

class ForeignEvent final : public Event {
 public:
  bool reached() const override { return true; }
  double time_s() const override { return 0; }
};

TEST(CpuStream, RefusesToRecordAnEventOfAnotherKindOfDevice) {
  const auto device = make_cpu_device({});
  ForeignEvent event;
  EXPECT_THROW(device->make_stream()->record(event), InternalError);
}

TEST(CpuClock, IsSharedByAllDevicesOfTheHost) {
  const auto first = make_cpu_device({}), second = make_cpu_device({.index = 1});
  const double start_s = first->now_s(), middle_s = second->now_s(), end_s = first->now_s();
  EXPECT_LE(start_s, middle_s);
  EXPECT_LE(middle_s, end_s);
}

}  // namespace
}  // namespace ddpbench
