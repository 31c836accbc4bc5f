// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The devices of this host, and the CUDA module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/runtime/cpu_topology.h"
#include "kernels/runtime/cuda_device.h"
#include "parallel/comm_backends.h"
#include "parallel/cuda_module.h"

namespace ddpbench::bench {

// The kind for "cpu" or "cuda".
DeviceKind device_kind(std::string_view word);

struct HostDevices {
  CpuTopology cpu;
  CudaProbe cuda;                // with a reason when there are no devices
  std::string no_cpu_bf16 = {};  // why CPU devices do not compute in bf16; empty: they do
  std::uintmax_t shared_memory_bytes = UINTMAX_MAX;  // free_shared_memory()
  // What this process and those that it starts can use now (memory_limit); 0: not known.
  std::uint64_t available_bytes = 0;
  std::string launcher = {};  // that will start the ranks ("mpirun"); empty: this program
};

// Opens the CUDA module for "auto" when there is a driver, for "cuda" always, for "cpu" never.
HostDevices find_devices(const std::string& device);

// The module beside this program. Throws UnavailableError where there is none.
const CudaModule& cuda_module();

// The module of a backend that has one of its own (CommBackend::module). Throws as cuda_module().
const comm::CommModule& backend_module(const CommBackend& backend);
// Whether a launcher (torchrun, mpirun, srun) started this process as a rank of a world.
bool is_launched();
// Why the backend is not available, which may open its module; empty where it is.
std::string why_no_backend(const CommBackend& backend, const CudaProbe& cuda);

}  // namespace ddpbench::bench
