// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From options to the jobs of a report's runs.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/options/options.h"
#include "bench/plan/device_plan.h"
#include "bench/plan/training_job.h"

namespace ddpbench::bench {

// Decides batches, learning rate and placement of the run of `cell`. Throws ConfigError when the
// devices do not divide the global batch, when the data set is smaller than a batch and
// --last-batch=drop, and for NCCL to servers on CPU devices. Throws UnavailableError when there are
// more devices than GPUs; `gpu_advice` says what to do about that. Descriptors are left at -1.
TrainingJob make_training_job(const Options& options, const RunCell& cell,
                              const data::DatasetInfo& dataset, const std::string& model_path,
                              const HostDevices& host,
                              std::string_view gpu_advice = kLaunchedGpuAdvice);

// What --backend=auto came to: the one backend of all runs that have any. Where they have several,
// or none moves data, each run's own says it and this is "auto".
std::string common_backend(const std::vector<TrainingJob>& runs);

// Whether the run is verified against a reference: not the baseline, which computes the same, and
// no strategy whose results differ by design.
bool needs_reference(const TrainingJob& job);

// The reference that `job` is verified against: one process, the same slices.
TrainingJob reference_job(const TrainingJob& job);

// What the reference of a run depends on, among all that differs between the runs of a sweep. Runs
// with equal keys share a reference.
struct ReferenceKey {
  int world_size = 1;  // slices
  std::int64_t per_device_batch = 0;
  double lr = 0;
  auto operator<=>(const ReferenceKey&) const = default;
};
ReferenceKey reference_key(const TrainingJob& job);

// The tolerance of the run's verification: report::verification_tolerance for the run's precision
// and the longest sum behind an element of a gradient (global batch x output positions). 0 when
// verification is off.
double tolerance_for(const TrainingJob& job, const nn::ModelSpec& model);

// What --device, --server-device and --precision come to on `host`: no "auto" is left. `note` says
// for --device=auto why it was chosen. Throws UnavailableError when what was asked for is not here,
// ConfigError for servers on GPUs beside workers on CPU devices.
struct DeviceChoice {
  std::string device;         // cpu | cuda
  std::string server_device;  // cpu | cuda
  std::string precision;      // fp32 | tf32 | bf16
  std::string note;
};
DeviceChoice choose_device(const Options& options, const HostDevices& host);

// How many devices --gpus=all stands for.
int device_count(const HostDevices& host, const std::string& device);

}  // namespace ddpbench::bench
