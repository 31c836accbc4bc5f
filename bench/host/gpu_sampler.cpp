// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/gpu_sampler.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "kernels/runtime/cpu_topology.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

using report::GpuTelemetry;
using report::SampleRange;
using Samples = std::span<const GpuSample>;

Known<SampleRange> range_of(Samples samples, Known<double> GpuSample::*figure) {
  std::vector<double> values;
  for (const GpuSample& sample : samples) {
    if ((sample.*figure).value) values.push_back(*(sample.*figure).value);
  }
  if (values.empty()) return Known<SampleRange>::missing((samples.back().*figure).reason);
  const auto [least, most] = std::ranges::minmax(values);
  return Known<SampleRange>::of({report::median(values), least, most});
}

// The share of the samples that had each clock event, of those with known events.
Known<std::map<std::string, double>> event_ratios(Samples samples) {
  using Ratios = std::map<std::string, double>;
  Ratios ratios;
  double known = 0;
  for (const GpuSample& sample : samples) {
    if (!sample.clock_events.value) continue;
    ++known;
    for (std::size_t event = 0; event < kClockEvents.size(); ++event) {
      if (*sample.clock_events.value >> event & 1U) ++ratios[std::string(kClockEvents[event])];
    }
  }
  if (known == 0) return Known<Ratios>::missing(samples.back().clock_events.reason);
  for (auto& [event, ratio] : ratios) ratio /= known;
  return Known<Ratios>::of(std::move(ratios));
}

}  // namespace

Known<GpuTelemetry> summarize_samples(Samples samples, std::chrono::milliseconds interval) {
  if (samples.empty()) {
    return Known<GpuTelemetry>::missing("the run ended before the first sample");
  }
  GpuTelemetry telemetry;
  telemetry.samples = std::ssize(samples);
  telemetry.interval_s = std::chrono::duration<double>(interval).count();
  telemetry.utilization_ratio = range_of(samples, &GpuSample::utilization_ratio);
  telemetry.sm_clock_mhz = range_of(samples, &GpuSample::sm_clock_mhz);
  telemetry.memory_clock_mhz = range_of(samples, &GpuSample::memory_clock_mhz);
  telemetry.power_w = range_of(samples, &GpuSample::power_w);
  telemetry.temperature_celsius = range_of(samples, &GpuSample::temperature_celsius);
  telemetry.clock_event_ratios = event_ratios(samples);
  return Known<GpuTelemetry>::of(std::move(telemetry));
}

// The first sample comes one interval after the begin: earlier, the driver's figures would still
// describe the time before. A driver that tells nothing need not be asked again and again.
void GpuSampler::begin() {
  if (!monitor_->reason().empty()) return;
  sampled_ = false;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    const Unpinned unpinned;  // the thread that makes this one may be bound to a device's cores
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait_for(lock, stop, interval_, [] { return false; });
      if (stop.stop_requested()) return;
      take_samples();
    }
  });
}

void GpuSampler::end() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  if (!sampled_) take_samples();
}

Known<GpuTelemetry> GpuSampler::telemetry(std::size_t gpu) const {
  if (!monitor_->reason().empty()) return Known<GpuTelemetry>::missing(monitor_->reason());
  return summarize_samples(samples_.at(gpu), interval_);
}

void GpuSampler::take_samples() {
  for (std::size_t gpu = 0; gpu < samples_.size(); ++gpu) {
    samples_[gpu].push_back(monitor_->sample(gpu));
  }
  sampled_ = true;
}

}  // namespace ddpbench::bench
