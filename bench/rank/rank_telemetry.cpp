// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_telemetry.h"

#include "bench/host/host_devices.h"

namespace ddpbench::bench {

std::unique_ptr<GpuSampler> make_gpu_sampler(const TrainingJob& job,
                                             const std::vector<int>& devices) {
  if (job.gpus.empty() || !job.options.observe) return nullptr;
  const CudaProbe probe = cuda_module().probe();
  GpuMonitorOptions options;
  for (const int device : devices) {
    const int ordinal = job.gpus.at(static_cast<std::size_t>(device));
    options.uuids.push_back(probe.devices.at(static_cast<std::size_t>(ordinal)).uuid);
  }
  return std::make_unique<GpuSampler>(cuda_module().make_monitor(options), devices.size());
}

std::unique_ptr<RangeMarker> make_heard_marker(const TrainingJob& job, int device) {
  if (!job.is_on_gpu(device)) return nullptr;
  auto marker = cuda_module().make_range_marker();
  return marker->is_heard() ? std::move(marker) : nullptr;
}

}  // namespace ddpbench::bench
