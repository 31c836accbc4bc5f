// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CudaModule: all code that needs CUDA, behind one library that is opened at run time. Linking
// CUDA's libraries would map 155 MB and take 60 ms before main of every run, also on CPU devices.
// And the opening of such libraries, also of a CommModule's.
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/shared_library.h"
#include "kernels/ops/cuda_backend.h"
#include "kernels/runtime/cuda_device.h"
#include "kernels/runtime/gpu_monitor.h"
#include "kernels/runtime/range_marker.h"
#include "parallel/comm/comm_module.h"
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

// Opens the module at `path`, whose exported function `entry` is an `Entry`, until the process
// ends. `title` is for messages: "the CUDA module". The program's deadlines hold in it. Throws
// UnavailableError, also when the module is of another build.
template <typename Entry>
auto& open_module(const std::string& path, const char* entry, std::string_view title) {
  void* const library = open_library(path, fmt::format("{} cannot be opened", title));
  const auto function = reinterpret_cast<Entry>(find_in_library(library, entry));
  const auto* const module = function == nullptr ? nullptr : function(kModuleBuild);
  if (module == nullptr) {
    throw UnavailableError(
        fmt::format("{} was built from other sources than this program; build both again", path));
  }
  module->share_pauses(comm::DeadlineClock::pauses());
  return *module;
}

// Opens the CUDA module, as above.
inline const CudaModule& open_cuda_module(const std::string& path) {
  return open_module<CudaModuleEntry>(path, kCudaModuleEntryName, "the CUDA module");
}

}  // namespace ddpbench
