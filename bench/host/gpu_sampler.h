// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GpuSampler: samples the GPUs of one process a few times a second while it trains. Its thread is
// bound to no processor, so that the steps do not wait for the driver's answers.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "kernels/runtime/gpu_monitor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The driver renews its own figures every sixth of a second at most.
inline constexpr std::chrono::milliseconds kGpuSampleInterval{250};

Known<report::GpuTelemetry> summarize_samples(std::span<const GpuSample> samples,
                                              std::chrono::milliseconds interval);

class GpuSampler {
 public:
  // Samples the first `gpus` of the monitor's list.
  GpuSampler(std::unique_ptr<GpuMonitor> monitor, std::size_t gpus,
             std::chrono::milliseconds interval = kGpuSampleInterval)
      : monitor_(std::move(monitor)), interval_(interval), samples_(gpus) {}

  // Enclose each part that is to be sampled; the samples of all parts add up. When a part ends
  // before its first sample is due, end() takes one.
  void begin();
  void end();

  // Summarizes the samples taken so far. REQUIRES: no part has begun without an end.
  Known<report::GpuTelemetry> telemetry(std::size_t gpu) const;

 private:
  void take_samples();

  std::unique_ptr<GpuMonitor> monitor_;
  std::chrono::milliseconds interval_;
  std::vector<std::vector<GpuSample>> samples_;  // [gpu]
  bool sampled_ = false;                         // since begin()
  std::jthread thread_;                          // of a part; it alone samples meanwhile
};

}  // namespace ddpbench::bench
