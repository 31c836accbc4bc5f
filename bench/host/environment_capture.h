// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says about the machine and the process that made it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/host/host_limits.h"
#include "kernels/runtime/cuda_device.h"
#include "kernels/runtime/gpu_monitor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

using Variables = std::map<std::string, std::string>;

// The variables of `all` that affect measurements, and those named in `options`. Reports are passed
// on, so they have no others, above all no secrets.
Variables recorded_variables(const Variables& all, const std::vector<std::string>& options);

// Reads this host. `libraries` (name -> version) is added to the versions that the build knows.
// add_gpus fills in the GPUs.
report::Environment capture_environment(const Variables& recorded, const Variables& libraries);

// This host with the variables of this process that a report has, `options` among them (as
// recorded_variables), and the versions of the operations' libraries.
report::Environment environment_of_process(const std::vector<std::string>& options);

// What a report says about this host's GPUs and their connections. `monitor` watches the uuids of
// `probe.devices`, in their order.
std::vector<report::GpuInfo> gpu_infos(const CudaProbe& probe, GpuMonitor& monitor);

// Adds the GPUs and the versions of CUDA's libraries when `host` has GPUs; asks the CUDA module.
void add_gpus(report::Environment& environment, const HostDevices& host);

}  // namespace ddpbench::bench
