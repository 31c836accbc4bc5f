// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The entry of the stand-in's module. STAND_IN_JOIN_PATIENCE_S, where it is set, is the time in
// which NCCL's ranks must join, so that a test of a join that fails need not wait half a minute.
#include <cstdlib>

#include "parallel/cuda/linked_module.h"

namespace ddpbench {
namespace {

WorldOptions with_patience(WorldOptions options) {
  const char* const seconds = std::getenv("STAND_IN_JOIN_PATIENCE_S");
  if (seconds != nullptr) options.join_patience_s = std::atof(seconds);
  return options;
}

constexpr CudaModule host_module() {
  CudaModule module = kLinkedModule;
  module.make_nccl = [](comm::Store& store, int rank, int size, Device& device,
                        const WorldOptions& options) {
    return comm::make_nccl(store, rank, size, device, with_patience(options));
  };
  module.make_thread_nccl = [](const std::vector<Device*>& devices, const WorldOptions& options) {
    return comm::make_thread_nccl(devices, with_patience(options));
  };
  return module;
}
constexpr CudaModule kHostModule = host_module();

}  // namespace
}  // namespace ddpbench

extern "C" __attribute__((visibility("default"))) const ddpbench::CudaModule* ddpbench_cuda_module(
    const char* build) {
  return ddpbench::module_of_build(build, ddpbench::kHostModule);
}
