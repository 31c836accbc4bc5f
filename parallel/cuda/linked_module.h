// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// LinkedModule: the CUDA module, implemented by the functions that it is linked with; and the
// answer of a library that exports such a module.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/cuda_module.h"

namespace ddpbench {

class LinkedModule : public CudaModule {
 public:
  CudaProbe probe() const override { return probe_cuda(); }
  std::unique_ptr<Device> make_device(const CudaDeviceOptions& options) const override {
    return make_cuda_device(options);
  }
  std::unique_ptr<ops::OpBackend> make_backend(
      Device& device, const ops::CudaBackendOptions& options) const override {
    return ops::make_cuda_backend(device, options);
  }
  std::unique_ptr<comm::Communicator> make_nccl(comm::Store& store, int rank, int size,
                                                Device& device,
                                                const WorldOptions& options) const override {
    return comm::make_nccl(store, rank, size, device, options);
  }
  std::unique_ptr<comm::Communicator> make_staged(std::unique_ptr<comm::Communicator> host,
                                                  Device& device, bool blocks) const override {
    return comm::make_staged(std::move(host), device, blocks);
  }
  std::vector<std::unique_ptr<comm::Communicator>> make_thread_nccl(
      const std::vector<Device*>& devices, const WorldOptions& options) const override {
    return comm::make_thread_nccl(devices, options);
  }
  std::unique_ptr<GpuMonitor> make_monitor(const GpuMonitorOptions& options) const override {
    return make_gpu_monitor(options);
  }
  std::unique_ptr<RangeMarker> make_range_marker() const override {
    return make_nvtx_range_marker();
  }
  void share_pauses(comm::DeadlineClock::Pauses& pauses) const override {
    comm::DeadlineClock::share(pauses);
  }
  std::map<std::string, std::string> library_versions() const override {
    const CudaProbe found = probe_cuda();
    std::map<std::string, std::string> versions = ops::cuda_library_versions();
    versions.merge(comm::cuda_comm_versions());
    versions["cuda"] = found.runtime_version;
    if (!found.driver_version.empty()) versions["cuda_driver"] = found.driver_version;
    return versions;
  }
};

// What CudaModuleEntry returns where the module is a `Module`.
template <typename Module>
const CudaModule* module_of_build(const char* build) {
  static const Module module;
  return std::strcmp(build, kModuleBuild) == 0 ? &module : nullptr;
}

}  // namespace ddpbench
