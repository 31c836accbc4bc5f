// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says of the GPUs of this host and of how they are connected.
#pragma once

#include <vector>

#include "bench/host/host_devices.h"
#include "kernels/runtime/cuda_device.h"
#include "kernels/runtime/gpu_monitor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// `monitor` is of the uuids of `probe.devices`, in their order.
std::vector<report::GpuInfo> gpu_infos(const CudaProbe& probe, GpuMonitor& monitor);

// GPUs and the versions of CUDA's libraries, when `host` has GPUs; asks the CUDA module.
void add_gpus(report::Environment& environment, const HostDevices& host);

// For CudaModule::make_monitor.
GpuMonitorOptions monitor_options(const CudaProbe& probe);

}  // namespace ddpbench::bench
