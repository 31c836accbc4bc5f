// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices of this host, and the CUDA module.
#pragma once

#include <string>

#include "kernels/runtime/cpu_topology.h"
#include "kernels/runtime/cuda_device.h"
#include "parallel/cuda_module.h"

namespace ddpbench::bench {

struct HostDevices {
  CpuTopology cpu;
  CudaProbe cuda;  // with a reason when there are no devices
};

// Opens the CUDA module only when `device` may need it: for "auto" when there is a driver, for
// "cuda" always, for "cpu" never.
HostDevices find_devices(const std::string& device);

// The module beside this program. Throws UnavailableError when the program was built without it, or
// it cannot be opened.
const CudaModule& cuda_module();

}  // namespace ddpbench::bench
