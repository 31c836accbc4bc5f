// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sampling with monitors that the test scripts; tests/cuda/ tests the driver's side.
#include "bench/host/gpu_sampler.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "bench/host/environment_capture.h"
#include "bench/rank/rank_result.h"

namespace ddpbench::bench {
namespace {

using std::chrono::milliseconds;

GpuSample sample_of(double load, double clock_mhz, std::uint32_t events) {
  GpuSample sample;
  sample.utilization_ratio.value = load;
  sample.sm_clock_mhz.value = clock_mhz;
  sample.memory_clock_mhz.value = 3201;
  sample.power_w.value = 700;
  sample.temperature_celsius.reason = "Not Supported";
  sample.clock_events.value = events;
  return sample;
}

// Counts its samples in `looks`, so that a test can wait for them.
class ScriptedMonitor final : public GpuMonitor {
 public:
  const std::string& reason() const noexcept override { return reason_; }
  Known<std::string> driver_version() override { return {"580.65.06", {}}; }
  GpuSample sample(std::size_t gpu) override {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) processors = CPU_COUNT(&allowed);
    ++looks;
    return sample_of(1, gpu == 0 ? 1980 : 1500, 0);
  }
  PcieSlot pcie_slot(std::size_t) override { return {{5, {}}, {std::nullopt, "not told"}}; }

  std::string reason_;
  std::atomic<int> looks = 0;
  std::atomic<int> processors = 0;  // on which the last sampling thread may run
};

TEST(GpuSamples, TellMedianLeastAndMostAndSharesOfReasons) {
  const std::vector<GpuSample> samples = {sample_of(0.2, 345, 1), sample_of(1.0, 1980, 0),
                                          sample_of(0.9, 1755, 4), sample_of(0.8, 1755, 4)};
  const auto telemetry = summarize_samples(samples, milliseconds(250));
  ASSERT_TRUE(telemetry.value.has_value());
  EXPECT_EQ(telemetry.value->samples, 4);
  EXPECT_DOUBLE_EQ(telemetry.value->interval_s, 0.25);
  EXPECT_DOUBLE_EQ(telemetry.value->utilization_ratio.value->median, 0.85);
  EXPECT_DOUBLE_EQ(telemetry.value->sm_clock_mhz.value->min, 345);
  EXPECT_DOUBLE_EQ(telemetry.value->sm_clock_mhz.value->max, 1980);
  EXPECT_EQ(telemetry.value->temperature_celsius.reason, "Not Supported");
  EXPECT_THAT(
      telemetry.value->clock_event_ratios.value.value(),
      testing::ElementsAre(testing::Pair("gpu_idle", 0.25), testing::Pair("sw_power_cap", 0.5)));
}

TEST(GpuSamples, SayWhyThereIsNothing) {
  EXPECT_EQ(summarize_samples({}, milliseconds(250)).reason,
            "the run ended before the first sample");
  std::vector<GpuSample> samples = {sample_of(1, 1980, 0)};
  samples[0].clock_events = {std::nullopt, "Not Supported"};
  EXPECT_EQ(summarize_samples(samples, milliseconds(250)).value->clock_event_ratios.reason,
            "Not Supported");
}

// Binds the thread, as a rank's leading thread is bound to the cores of its device.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    ::sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
      if (CPU_ISSET(i, &before_)) CPU_SET(i, &one);
    }
    ::sched_setaffinity(0, sizeof(one), &one);
  }
  ~OnOneProcessor() { ::sched_setaffinity(0, sizeof(before_), &before_); }
  int processors() const { return CPU_COUNT(&before_); }

 private:
  cpu_set_t before_;
};

TEST(GpuSampler, SamplesBesideTheStepsAndIsBoundToNothing) {
  const OnOneProcessor bound;
  auto owned = std::make_unique<ScriptedMonitor>();
  ScriptedMonitor& monitor = *owned;
  GpuSampler sampler(std::move(owned), 2, milliseconds(1));
  EXPECT_EQ(sampler.telemetry(0).value.has_value(), false);
  sampler.begin();
  while (monitor.looks < 6) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GE(monitor.processors, bound.processors());
  sampler.end();
  const auto first = sampler.telemetry(0), second = sampler.telemetry(1);
  EXPECT_GE(first.value.value().samples, 3);
  EXPECT_DOUBLE_EQ(first.value->sm_clock_mhz.value->median, 1980);
  EXPECT_DOUBLE_EQ(second.value.value().sm_clock_mhz.value->median, 1500);
}

TEST(GpuSampler, RestsBetweenTheParts) {
  auto owned = std::make_unique<ScriptedMonitor>();
  ScriptedMonitor& monitor = *owned;
  GpuSampler sampler(std::move(owned), 1, milliseconds(2));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(monitor.looks, 0);
  sampler.begin();
  sampler.end();
  // A sample that was in flight may still come.
  std::this_thread::sleep_for(milliseconds(20));
  const int looks = monitor.looks;
  EXPECT_GE(looks, 1);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(monitor.looks, looks);
}

TEST(GpuSampler, TakesOneOfAPartThatIsShorterThanTheInterval) {
  GpuSampler sampler(std::make_unique<ScriptedMonitor>(), 1, milliseconds(1000000));
  for (int epoch = 0; epoch < 3; ++epoch) {
    sampler.begin();
    sampler.end();
  }
  EXPECT_EQ(sampler.telemetry(0).value.value().samples, 3);
}

TEST(GpuSampler, AsksNothingWithoutADriver) {
  auto owned = std::make_unique<ScriptedMonitor>();
  owned->reason_ = "NVML cannot be opened";
  ScriptedMonitor& monitor = *owned;
  GpuSampler sampler(std::move(owned), 1, milliseconds(1));
  sampler.begin();
  sampler.end();
  EXPECT_EQ(monitor.looks, 0);
  EXPECT_EQ(sampler.telemetry(0).reason, "NVML cannot be opened");
}

TEST(RankResult, CarriesTelemetryAndItsReasons) {
  const std::vector<GpuSample> samples = {sample_of(0.5, 1980, 4)};
  RankResult result;
  result.devices.resize(2);
  result.devices[0].gpu_telemetry = summarize_samples(samples, milliseconds(250));
  result.devices[1].gpu_telemetry.reason = "the device is no GPU";
  const RankResult read = decoded_rank_result(encoded(result));
  ASSERT_EQ(read.devices.size(), 2u);
  const auto& telemetry = read.devices[0].gpu_telemetry.value.value();
  EXPECT_EQ(telemetry.samples, 1);
  EXPECT_DOUBLE_EQ(telemetry.sm_clock_mhz.value->max, 1980);
  EXPECT_EQ(telemetry.temperature_celsius.reason, "Not Supported");
  EXPECT_DOUBLE_EQ(telemetry.clock_event_ratios.value->at("sw_power_cap"), 1);
  EXPECT_EQ(read.devices[1].gpu_telemetry.reason, "the device is no GPU");
  EXPECT_EQ(encoded(read), encoded(result));
}

TEST(GpuEnvironment, JoinsWhatCudaAndTheDriverTell) {
  CudaProbe probe;
  for (int i = 0; i < 2; ++i) {
    CudaDeviceInfo device;
    device.ordinal = i;
    device.name = "NVIDIA H200";
    device.uuid = i == 0 ? "GPU-a" : "GPU-b";
    device.compute_capability = 90;
    device.numa_node = i - 1;
    probe.devices.push_back(device);
  }
  ScriptedMonitor monitor;
  const auto gpus = gpu_infos(probe, monitor);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].compute_capability, "9.0");
  EXPECT_EQ(gpus[0].driver, "580.65.06");
  EXPECT_EQ(gpus[0].numa_node.value, std::nullopt);
  EXPECT_EQ(gpus[1].numa_node.value, 0);
  EXPECT_EQ(gpus[0].pcie_generation.value, 5);
  EXPECT_EQ(gpus[0].pcie_width.reason, "not told");
}

}  // namespace
}  // namespace ddpbench::bench
