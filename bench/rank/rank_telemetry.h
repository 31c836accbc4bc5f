// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank's GPUs are watched with while it trains. Nothing on CPU devices.
#pragma once

#include <memory>
#include <optional>

#include "bench/host/gpu_sampler.h"
#include "bench/measure/step_ranges.h"
#include "bench/plan/training_job.h"
#include "kernels/runtime/range_marker.h"

namespace ddpbench::bench {

// Of the devices with these indices among the run's, in this order; null on CPU devices and with
// --observe=off.
std::unique_ptr<GpuSampler> make_gpu_sampler(const TrainingJob& job,
                                             const std::vector<int>& devices);

// For the rank that has the device with this index. Null where no profiler looks on, and on CPU
// devices.
std::unique_ptr<RangeMarker> make_heard_marker(const TrainingJob& job, int device);

}  // namespace ddpbench::bench
