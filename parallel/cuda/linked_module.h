// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The CUDA module of the functions that a library is linked with, and the answer of a library that
// exports such a module.
#pragma once

#include <cstring>
#include <map>
#include <string>

#include "parallel/cuda_module.h"

namespace ddpbench {

inline std::map<std::string, std::string> linked_versions() {
  const CudaProbe found = probe_cuda();
  std::map<std::string, std::string> versions = ops::cuda_library_versions();
  versions.merge(comm::cuda_comm_versions());
  versions["cuda"] = found.runtime_version;
  if (!found.driver_version.empty()) versions["cuda_driver"] = found.driver_version;
  return versions;
}

inline constexpr CudaModule kLinkedModule = {.probe = &probe_cuda,
                                             .make_device = &make_cuda_device,
                                             .make_backend = &ops::make_cuda_backend,
                                             .make_nccl = &comm::make_nccl,
                                             .make_staged = &comm::make_staged,
                                             .make_thread_nccl = &comm::make_thread_nccl,
                                             .make_monitor = &make_gpu_monitor,
                                             .make_range_marker = &make_nvtx_range_marker,
                                             .share_pauses = &comm::DeadlineClock::share,
                                             .library_versions = &linked_versions};

// What CudaModuleEntry returns where the module is `module`.
inline const CudaModule* module_of_build(const char* build, const CudaModule& module) {
  return std::strcmp(build, kModuleBuild) == 0 ? &module : nullptr;
}

}  // namespace ddpbench
