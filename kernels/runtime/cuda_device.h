// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device, for code that does not know CUDA. What is declared here is defined in the CUDA
// module only; code outside of the module reaches it through parallel/cuda_module.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/device.h"

namespace ddpbench {

// One GPU that this process may use (CUDA_VISIBLE_DEVICES hides others). Plain data.
struct CudaDeviceInfo {
  int ordinal = 0;             // CUDA's number of it in this process
  std::string name;            // "NVIDIA H200"
  std::string uuid;            // "GPU-..."
  std::string pci_bus_id;      // "0000:17:00.0"
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  int numa_node = -1;  // of the host; -1: the driver does not say
};

struct CudaProbe {
  std::vector<CudaDeviceInfo> devices;
  std::string driver_version;   // of CUDA: "13.0"; empty: no driver
  std::string runtime_version;  // "13.0"
  std::string reason;           // why there is no device; empty when there is one
};

// Lists GPUs. Never throws: `reason` says what is missing. Makes no CUDA context.
CudaProbe probe_cuda();

struct CudaDeviceOptions {
  int index = 0;    // within the job's device list; becomes the name "cuda:<index>"
  int ordinal = 0;  // CUDA's number of the GPU; several indices may share one (oversubscribed)
};

// Makes the GPU's context when the process has none yet. Throws UnavailableError when there is no
// such GPU, DeviceError when CUDA refuses.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options);

}  // namespace ddpbench
