// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CudaModule: all code that needs CUDA, behind one library that is opened at run time. Linking
// CUDA's libraries would map 155 MB and take 60 ms before main of every run, also on CPU devices.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kernels/ops/cuda_backend.h"
#include "kernels/runtime/cuda_device.h"
#include "kernels/runtime/gpu_monitor.h"
#include "kernels/runtime/range_marker.h"
#include "parallel/comm/comm_module.h"
#include "parallel/comm/cuda_comm.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench {

// The module fills it in. The contracts are those of the functions of the same names.
struct CudaModule {
  CudaProbe (*probe)();
  std::unique_ptr<Device> (*make_device)(const CudaDeviceOptions& options);
  std::unique_ptr<ops::OpBackend> (*make_backend)(Device& device,
                                                  const ops::CudaBackendOptions& options);
  std::unique_ptr<comm::Communicator> (*make_nccl)(comm::Store& store, int rank, int size,
                                                   Device& device, const WorldOptions& options);
  std::unique_ptr<comm::Communicator> (*make_staged)(std::unique_ptr<comm::Communicator> host,
                                                     Device& device, bool blocks);
  std::unique_ptr<GpuMonitor> (*make_monitor)(const GpuMonitorOptions& options);
  std::unique_ptr<RangeMarker> (*make_range_marker)();
  // The module's waits use the program's deadlines (DeadlineClock::share).
  void (*share_pauses)(comm::DeadlineClock::Pauses& pauses);
  // The versions of "cuda", "cudnn", "cublaslt", "nccl" and the driver, as far as they are loaded.
  std::map<std::string, std::string> (*library_versions)();
};

// The one function that the module exports; as comm::CommModuleEntry.
using CudaModuleEntry = const CudaModule* (*)(const char* build);
inline constexpr const char* kCudaModuleEntryName = "ddpbench_cuda_module";
inline constexpr const char* kCudaModuleFile = "libddpbench_cuda.so";

}  // namespace ddpbench
