// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says about the machine and the process that it was made on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "kernels/runtime/cuda_device.h"
#include "kernels/runtime/gpu_monitor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

using Variables = std::map<std::string, std::string>;

// The environment of this process.
Variables process_variables();

// The variables of `all` that change what is measured: those of threads, devices and libraries, and
// those named in `options`. A report is passed on, so no others are in it, above all no secrets.
Variables recorded_variables(const Variables& all, const std::vector<std::string>& options);

// This host's name; "unknown" when the system does not say.
std::string host_name();

// Reads this host. `recorded` is put into the report as it is. `libraries` (name -> version) is
// added to what the build knows. GPUs are left empty; add_gpus fills them in.
report::Environment capture_environment(const Variables& recorded, const Variables& libraries);

// What a report says of the GPUs of this host and of how they are connected. `monitor` is of the
// uuids of `probe.devices`, in their order.
std::vector<report::GpuInfo> gpu_infos(const CudaProbe& probe, GpuMonitor& monitor);

// GPUs and the versions of CUDA's libraries, when `host` has GPUs; asks the CUDA module.
void add_gpus(report::Environment& environment, const HostDevices& host);

// For CudaModule::make_monitor.
GpuMonitorOptions monitor_options(const CudaProbe& probe);

}  // namespace ddpbench::bench
