// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_devices.h"

#include <filesystem>

#include "base/error.h"
#include "bench/host/build_info.h"
#include "kernels/ops/onednn_backend.h"

namespace ddpbench::bench {
namespace {

// Character devices that NVIDIA's driver makes: on Linux itself, and in WSL 2.
constexpr const char* kDriverFiles[] = {"/dev/nvidiactl", "/dev/dxg"};

bool has_driver() {
  std::error_code ignored;
  for (const char* file : kDriverFiles) {
    if (std::filesystem::exists(file, ignored)) return true;
  }
  return false;
}

CudaProbe probe(const std::string& device) {
  CudaProbe nothing;
  if (device == "cpu") {
    nothing.reason = "not looked for";
  } else if (!build_info().cuda_module) {
    nothing.reason = "this program was built without the CUDA module (DDPBENCH_ENABLE_CUDA=OFF)";
  } else if (device == "auto" && !has_driver()) {
    nothing.reason = "there is no NVIDIA driver";
  } else {
    try {
      return cuda_module().probe();
    } catch (const UnavailableError& error) {
      nothing.reason = error.what();
    }
  }
  return nothing;
}

}  // namespace

HostDevices find_devices(const std::string& device) {
  return {read_cpu_topology(), probe(device), ops::why_no_cpu_bf16()};
}

const CudaModule& cuda_module() {
  if (!build_info().cuda_module) {
    throw UnavailableError("this program was built without the CUDA module");
  }
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return open_cuda_module(
      (program.parent_path().parent_path() / "lib" / "ddpbench" / kCudaModuleFile).string());
}

}  // namespace ddpbench::bench
