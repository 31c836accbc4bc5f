// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the jobs of a report's runs from options.
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/options/options.h"
#include "bench/plan/training_job.h"

namespace ddpbench::bench {

// What --device, --server-device and --precision are resolved to: no "auto" is left.
struct DeviceChoice {
  std::string device;              // cpu | cuda
  std::string server_device = {};  // cpu | cuda
  std::string precision = {};      // fp32 | tf32 | bf16 | fp16
  std::string note = {};           // for people: why --device=auto was resolved so
};
// Throws UnavailableError when something asked for is not here, ConfigError for servers on GPUs
// beside workers on CPU devices.
DeviceChoice choose_device(const Options& options, const HostDevices& host);
// The device and the note alone, of runs on `most` devices at most. Throws UnavailableError when
// there is no such device, or no device that has the backend.
DeviceChoice choose_kind(const std::string& device, const std::string& backend,
                         const HostDevices& host, int most = INT_MAX);

// Deals out the GPUs to `devices` devices in turn. REQUIRES: there are GPUs.
std::vector<int> next_gpus(const CudaProbe& cuda, int devices);
// Throws UnavailableError with `advice` when there are fewer GPUs than devices and --oversubscribe
// does not let devices share. `option` asked for the devices ("--gpus").
void refuse_missing_gpus(
    const CudaProbe& cuda, std::string_view option, int devices, bool oversubscribe,
    std::string_view advice = "use fewer, or --oversubscribe to let devices share");

// `backends`: those of several runs or worlds. A run of one device moves no data and has "none".
// Returns the backend that all others share; "auto" where they differ or none moves data.
std::string common_backend(const std::vector<std::string>& backends);
// Returns a name of comm_backends() for `wanted`, which may be "auto".
std::string choose_backend(const std::string& wanted, const std::string& device, bool shared_gpus);
// Throws ConfigError for a link that nothing emulates.
void check_link(const std::string& link, const std::string& backend, const std::string& device);
// Throws UnavailableError when threads of one process would share a GPU and the backend does not
// let them.
void refuse_sharing_threads(std::string_view command, const std::string& backend, bool shared_gpus);

// Decides batches, learning rate and placement of the run of `cell`. Throws ConfigError for options
// that contradict each other, and UnavailableError when there are more devices than GPUs, and for a
// backend that does not connect ranks of one process. Descriptors stay at -1.
TrainingJob make_training_job(const Options& options, const RunCell& cell,
                              const data::DatasetInfo& dataset, const Network& network,
                              const HostDevices& host);

// What --dry-run says of a run: "ddp on 2 devices: batch 256 per device". `cores`: of the host.
std::string plan_line(const TrainingJob& job, std::size_t cores);

// Throws UnavailableError where CPU devices are so many more than cores that setting them up alone
// stops the machine, unless --oversubscribe is given.
void refuse_crowd(const TrainingJob& job, const HostDevices& host);
// How often devices take turns on the cores or GPUs of the host; 1: never.
double turns(const TrainingJob& job, const HostDevices& host);
// The seconds that the steps and evaluations of the run will take, if a step takes `step_s`.
double expected_s(const TrainingJob& job, double step_s);

// Whether the run is verified against a reference: not the baseline, which computes the same, nor
// strategies whose results differ by design.
bool needs_reference(const TrainingJob& job);

// The reference that `job` is verified against: one process with the same slices.
TrainingJob reference_job(const TrainingJob& job);

// What the reference of a run depends on, in one text: slices and batch, precision, and how weights
// are updated. Runs with equal keys share one.
std::string reference_key(const TrainingJob& job);

// report::verification_tolerance for the run's precision and the number of additions behind an
// element of a gradient. 0 when verification is off.
double tolerance_for(const TrainingJob& job, const nn::ModelSpec& model);

// The number of devices that --gpus=all stands for.
int device_count(const HostDevices& host, const std::string& device);

}  // namespace ddpbench::bench
