// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_devices.h"

#include <filesystem>

#include "base/error.h"
#include "bench/host/build_info.h"
#include "bench/host/host_limits.h"
#include "kernels/ops/backend.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

// Character devices that NVIDIA's driver makes: on Linux itself, and in WSL 2.
constexpr const char* kDriverFiles[] = {"/dev/nvidiactl", "/dev/dxg"};

// The place of a module, beside the folder of this program, built or installed.
std::filesystem::path module_path(std::string_view file) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib" / "ddpbench" / file;
}

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

DeviceKind device_kind(std::string_view word) {
  return word == to_string(DeviceKind::cuda) ? DeviceKind::cuda : DeviceKind::cpu;
}

HostDevices find_devices(const std::string& device) {
  return {read_usable_cpu(), probe(device), ops::why_no_cpu_bf16(), free_shared_memory()};
}

const CudaModule& cuda_module() {
  if (!build_info().cuda_module) {
    throw UnavailableError("this program was built without the CUDA module");
  }
  return open_cuda_module(module_path(kCudaModuleFile).string());
}

const comm::CommModule& backend_module(const CommBackend& backend) {
  const auto path = module_path(fmt::format("libddpbench_{}.so", backend.module));
  const std::string title = fmt::format("the {} module", backend.library);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw UnavailableError(
        fmt::format("{} is not beside this program ({}): it is built where Debian's {} is "
                    "installed, or is in the package ddpbench-{}",
                    title, path.string(), backend.package, backend.module));
  }
  return open_module<comm::CommModuleEntry>(path.string(), comm::kCommModuleEntryName, title);
}

bool is_launched() { return launch::names_launcher(launch::environment_variables()); }

std::string why_no_backend(const CommBackend& backend, const CudaProbe& cuda) {
  if (backend.devices == DeviceKind::cuda) return cuda.devices.empty() ? cuda.reason : "";
  if (backend.module.empty()) return "";
  try {
    backend_module(backend);
    return "";
  } catch (const UnavailableError& error) {
    return error.what();
  }
}

}  // namespace ddpbench::bench
