// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GpuSampler: samples the GPUs of one process a few times a second while it trains. Its thread is
// bound to no processor, so that the steps do not wait for the driver's answers.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/runtime/gpu_monitor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The driver renews its own figures every sixth of a second at most.
inline constexpr std::chrono::milliseconds kGpuSampleInterval{250};

// The samples of one GPU. They are numbers only: hours of them are a few megabytes.
class GpuSeries {
 public:
  void add(const GpuSample& sample);
  std::size_t size() const { return samples_; }
  Known<report::GpuTelemetry> summary(std::chrono::milliseconds interval) const;

 private:
  struct Figure {
    std::vector<double> values;
    std::string reason;  // of the last sample without a value
    void add(const Known<double>& told);
    Known<report::SampleRange> range() const;
  };
  Known<std::map<std::string, double>> event_ratios() const;

  std::size_t samples_ = 0;
  Figure utilization_, sm_clock_, memory_clock_, power_, temperature_;
  std::array<std::size_t, kClockEvents.size()> events_{};  // [event] samples that had it
  std::size_t event_samples_ = 0;                          // samples with known events
  std::string event_reason_;
};

class GpuSampler {
 public:
  // Samples the first `gpus` of the monitor's list.
  GpuSampler(std::unique_ptr<GpuMonitor> monitor, std::size_t gpus,
             std::chrono::milliseconds interval = kGpuSampleInterval);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  // Enclose each part that is to be sampled; the samples of all parts add up. When a part ends
  // before its first sample is due, end() takes one, on the calling thread.
  void begin();
  void end();

  // Summarizes the samples taken so far.
  Known<report::GpuTelemetry> telemetry(std::size_t gpu) const;

 private:
  void run();
  void take_samples();  // REQUIRES: samples_mutex_ is free

  std::unique_ptr<GpuMonitor> monitor_;
  std::chrono::milliseconds interval_;
  mutable std::mutex samples_mutex_;  // guards the monitor and the samples
  std::vector<GpuSeries> samples_;    // [gpu]
  bool sampled_ = false;              // since begin()
  std::mutex state_mutex_;
  std::condition_variable changed_;
  bool active_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace ddpbench::bench
