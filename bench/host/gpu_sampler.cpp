// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/gpu_sampler.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

using report::GpuTelemetry;
using report::SampleRange;

// The thread that makes this one may be bound to a device's cores, and its children inherit that.
// The kernel leaves out processors that the process may not use.
void unbind_calling_thread() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &all);
  static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof(all), &all));
}

}  // namespace

void GpuSeries::Figure::add(const Known<double>& told) {
  if (told.value) {
    values.push_back(*told.value);
  } else {
    reason = told.reason;
  }
}

Known<SampleRange> GpuSeries::Figure::range() const {
  if (values.empty()) return Known<SampleRange>::missing(reason);
  const auto [least, most] = std::ranges::minmax(values);
  return Known<SampleRange>::of({report::median(values), least, most});
}

void GpuSeries::add(const GpuSample& sample) {
  ++samples_;
  utilization_.add(sample.utilization_ratio);
  sm_clock_.add(sample.sm_clock_mhz);
  memory_clock_.add(sample.memory_clock_mhz);
  power_.add(sample.power_w);
  temperature_.add(sample.temperature_celsius);
  if (!sample.clock_events.value) {
    event_reason_ = sample.clock_events.reason;
    return;
  }
  ++event_samples_;
  for (std::size_t event = 0; event < events_.size(); ++event) {
    events_[event] += *sample.clock_events.value >> event & 1U;
  }
}

Known<std::map<std::string, double>> GpuSeries::event_ratios() const {
  using Ratios = std::map<std::string, double>;
  if (event_samples_ == 0) return Known<Ratios>::missing(event_reason_);
  Ratios ratios;
  for (std::size_t event = 0; event < events_.size(); ++event) {
    if (events_[event] == 0) continue;
    ratios[std::string(kClockEvents[event])] =
        static_cast<double>(events_[event]) / static_cast<double>(event_samples_);
  }
  return Known<Ratios>::of(std::move(ratios));
}

Known<GpuTelemetry> GpuSeries::summary(std::chrono::milliseconds interval) const {
  if (samples_ == 0) return Known<GpuTelemetry>::missing("the run ended before the first sample");
  GpuTelemetry telemetry;
  telemetry.samples = static_cast<std::int64_t>(samples_);
  telemetry.interval_s = std::chrono::duration<double>(interval).count();
  telemetry.utilization_ratio = utilization_.range();
  telemetry.sm_clock_mhz = sm_clock_.range();
  telemetry.memory_clock_mhz = memory_clock_.range();
  telemetry.power_w = power_.range();
  telemetry.temperature_celsius = temperature_.range();
  telemetry.clock_event_ratios = event_ratios();
  return Known<GpuTelemetry>::of(std::move(telemetry));
}

GpuSampler::GpuSampler(std::unique_ptr<GpuMonitor> monitor, std::size_t gpus,
                       std::chrono::milliseconds interval)
    : monitor_(std::move(monitor)), interval_(interval), samples_(gpus) {
  // A driver that tells nothing need not be asked again and again.
  if (monitor_->reason().empty()) thread_ = std::thread([this] { run(); });
}

GpuSampler::~GpuSampler() {
  {
    const std::lock_guard lock(state_mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GpuSampler::begin() {
  {
    const std::lock_guard lock(samples_mutex_);
    sampled_ = false;
  }
  {
    const std::lock_guard lock(state_mutex_);
    active_ = true;
  }
  changed_.notify_all();
}

void GpuSampler::end() {
  {
    const std::lock_guard lock(state_mutex_);
    active_ = false;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  bool sampled = false;
  {
    const std::lock_guard lock(samples_mutex_);
    sampled = sampled_;
  }
  if (!sampled) take_samples();
}

Known<report::GpuTelemetry> GpuSampler::telemetry(std::size_t gpu) const {
  if (!monitor_->reason().empty()) return Known<GpuTelemetry>::missing(monitor_->reason());
  const std::lock_guard lock(samples_mutex_);
  return samples_.at(gpu).summary(interval_);
}

void GpuSampler::run() {
  unbind_calling_thread();
  std::unique_lock lock(state_mutex_);
  while (!ended_) {
    if (!active_) {
      changed_.wait(lock, [&] { return active_ || ended_; });
      continue;
    }
    // The first sample comes one interval after the begin: earlier, the driver's figures would
    // still describe the time before.
    if (changed_.wait_for(lock, interval_, [&] { return !active_ || ended_; })) continue;
    lock.unlock();
    take_samples();
    lock.lock();
  }
}

void GpuSampler::take_samples() {
  const std::lock_guard lock(samples_mutex_);
  for (std::size_t gpu = 0; gpu < samples_.size(); ++gpu) {
    samples_[gpu].add(monitor_->sample(gpu));
  }
  sampled_ = true;
}

}  // namespace ddpbench::bench
