// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The monitor on libraries that behave as NVML does (fake_nvml.cpp). The code that opens, looks up
// and converts is the same as on a GPU.
#include "kernels/runtime/gpu_monitor.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

namespace ddpbench {
namespace {

using testing::HasSubstr;

std::unique_ptr<GpuMonitor> monitor(const char* library, std::vector<std::string> uuids = {
                                                             "GPU-a", "GPU-b", "GPU-c", "GPU-d"}) {
  return make_gpu_monitor({.uuids = std::move(uuids), .library = library});
}

std::uint32_t bit(std::string_view event) {
  for (std::size_t i = 0; i < kClockEvents.size(); ++i) {
    if (kClockEvents[i] == event) return 1U << i;
  }
  return 0;
}

TEST(GpuMonitor, TellsWhatTheDriverTells) {
  const auto found = monitor(FAKE_NVML);
  EXPECT_EQ(found->reason(), "");
  EXPECT_EQ(found->driver_version().value, "580.65.06");
  const GpuSample idle = found->sample(0);
  EXPECT_DOUBLE_EQ(idle.utilization_ratio.value.value(), 0);
  EXPECT_DOUBLE_EQ(idle.sm_clock_mhz.value.value(), 345);
  EXPECT_DOUBLE_EQ(idle.memory_clock_mhz.value.value(), 3201);
  EXPECT_DOUBLE_EQ(idle.power_w.value.value(), 100.5);
  EXPECT_DOUBLE_EQ(idle.temperature_celsius.value.value(), 41);
  EXPECT_EQ(idle.clock_events.value, bit("gpu_idle"));
  const GpuSample busy = found->sample(0);
  EXPECT_DOUBLE_EQ(busy.utilization_ratio.value.value(), 0.9);
  EXPECT_EQ(busy.clock_events.value, 0u);
  EXPECT_EQ(found->sample(0).clock_events.value, bit("sw_power_cap"));
  // An unknown reason is not lost.
  EXPECT_EQ(found->sample(0).clock_events.value, bit("sw_power_cap") | bit("other"));
  const PcieSlot slot = found->pcie_slot(0);
  EXPECT_EQ(slot.generation.value, 5);
  EXPECT_EQ(slot.width.value, 16);
}

TEST(GpuMonitor, DoesWithoutFunctionsThatADriverLacks) {
  const auto found = monitor(FAKE_NVML_OLD);
  const GpuSample sample = found->sample(0);
  EXPECT_TRUE(sample.sm_clock_mhz.value.has_value());
  EXPECT_EQ(sample.clock_events.value, bit("gpu_idle"));  // by its old name
  EXPECT_EQ(sample.power_w.value, std::nullopt);
  EXPECT_EQ(sample.power_w.reason, "this driver's NVML has no nvmlDeviceGetPowerUsage");
  EXPECT_THAT(found->pcie_slot(0).width.reason, HasSubstr("no nvmlDeviceGetMaxPcieLinkWidth"));
}

TEST(GpuMonitor, SaysWhatAGpuDoesNotSupport) {
  const auto found = monitor(FAKE_NVML_REFUSES);
  EXPECT_EQ(found->reason(), "");
  const GpuSample sample = found->sample(1);
  for (const auto* figure :
       {&sample.utilization_ratio, &sample.sm_clock_mhz, &sample.memory_clock_mhz, &sample.power_w,
        &sample.temperature_celsius}) {
    EXPECT_EQ(figure->value, std::nullopt);
    EXPECT_THAT(figure->reason, HasSubstr("Not Supported"));
  }
  EXPECT_EQ(sample.clock_events.value, std::nullopt);
}

TEST(GpuMonitor, NamesAGpuThatTheDriverDoesNotKnow) {
  const auto found = monitor(FAKE_NVML, {"GPU-a", "MIG-1"});
  EXPECT_TRUE(found->sample(0).power_w.value.has_value());
  EXPECT_THAT(found->sample(1).power_w.reason,
              AllOf(HasSubstr("does not know MIG-1"), HasSubstr("Not Found")));
}

TEST(GpuMonitor, TellsOnlyTheReasonWithoutADriver) {
  const auto found = monitor("libnvidia-ml-that-is-not-here.so.1");
  EXPECT_THAT(found->reason(), AllOf(HasSubstr("NVML cannot be opened"),
                                     HasSubstr("libnvidia-ml-that-is-not-here.so.1")));
  EXPECT_EQ(found->sample(0).power_w.reason, found->reason());
  EXPECT_EQ(found->driver_version().value, std::nullopt);
  EXPECT_EQ(found->pcie_slot(3).width.reason, found->reason());
}

TEST(GpuMonitor, RefusesALibraryThatIsNoNvml) {
  EXPECT_THAT(monitor("libm.so.6")->reason(), HasSubstr("libm.so.6 is not NVML"));
}

TEST(GpuMonitor, EndsWhatItBegan) {
  void* const library = ::dlopen(FAKE_NVML, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto starts = reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_starts"));
  {
    const auto found = monitor(FAKE_NVML);
    EXPECT_EQ(starts(), 1);
  }
  EXPECT_EQ(starts(), 0);
  ::dlclose(library);
}

}  // namespace
}  // namespace ddpbench
