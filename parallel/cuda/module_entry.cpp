// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one function that the CUDA module exports.
#include <cstring>
#include <map>
#include <string>

#include "parallel/cuda_module.h"

namespace ddpbench {
namespace {

std::map<std::string, std::string> linked_versions() {
  const CudaProbe found = probe_cuda();
  std::map<std::string, std::string> versions = ops::cuda_library_versions();
  versions.merge(comm::cuda_comm_versions());
  versions["cuda"] = found.runtime_version;
  if (!found.driver_version.empty()) versions["cuda_driver"] = found.driver_version;
  return versions;
}

constexpr CudaModule kModule = {.probe = &probe_cuda,
                                .make_device = &make_cuda_device,
                                .make_backend = &ops::make_cuda_backend,
                                .make_nccl = &comm::make_nccl,
                                .make_staged = &comm::make_staged,
                                .make_monitor = &make_gpu_monitor,
                                .make_range_marker = &make_nvtx_range_marker,
                                .share_pauses = &comm::DeadlineClock::share,
                                .library_versions = &linked_versions};

}  // namespace
}  // namespace ddpbench

extern "C" __attribute__((visibility("default"))) const ddpbench::CudaModule* ddpbench_cuda_module(
    const char* build) {
  return std::strcmp(build, ddpbench::kModuleBuild) == 0 ? &ddpbench::kModule : nullptr;
}
