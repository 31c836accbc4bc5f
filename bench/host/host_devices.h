// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices of this host, and where the CUDA module is.
#pragma once

#include <string>

#include "kernels/runtime/cpu_topology.h"
#include "kernels/runtime/cuda_device.h"
#include "parallel/cuda_module.h"

namespace ddpbench::bench {

struct HostDevices {
  CpuTopology cpu;
  CudaProbe cuda;  // with a reason when it has no devices
};

// Opens the CUDA module only when `device` ("auto", "cpu", "cuda") may come to need it: for "auto"
// when there is a driver, for "cpu" never.
HostDevices find_devices(const std::string& device);

// The module beside this program. Throws UnavailableError when it was built without, or the module
// cannot be opened.
const CudaModule& cuda_module();

}  // namespace ddpbench::bench
