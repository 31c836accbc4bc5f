// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda/nvml_library.h"

#include <fmt/format.h>

#include <initializer_list>

#include "base/error.h"
#include "base/shared_library.h"

namespace ddpbench::cuda {
namespace {

// The first of the names that the library has; newer ones come first.
template <typename Function>
void find(void* library, Function& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    function = reinterpret_cast<Function>(find_in_library(library, name));
    if (function != nullptr) return;
  }
}

}  // namespace

NvmlLibrary::NvmlLibrary(const std::string& path) {
  try {
    library_ = open_library(path, "NVML cannot be opened");
  } catch (const UnavailableError& error) {
    reason_ = error.what();
    return;
  }
  find_functions();
  if (functions_.init == nullptr || functions_.device_by_uuid == nullptr) {
    reason_ = fmt::format("{} is not NVML, or its version is too old", path);
    return;
  }
  const NvmlReturn status = functions_.init();
  initialised_ = status == kNvmlSuccess;
  if (!initialised_) reason_ = fmt::format("NVML does not start: {}", error_text(status));
}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_ && functions_.shutdown != nullptr) static_cast<void>(functions_.shutdown());
  close_library(library_);
}

void NvmlLibrary::find_functions() {
  NvmlFunctions& f = functions_;
  find(library_, f.init, {"nvmlInit_v2"});
  find(library_, f.shutdown, {"nvmlShutdown"});
  find(library_, f.error_text, {"nvmlErrorString"});
  find(library_, f.driver_version, {"nvmlSystemGetDriverVersion"});
  find(library_, f.device_by_uuid, {"nvmlDeviceGetHandleByUUID"});
  find(library_, f.utilization, {"nvmlDeviceGetUtilizationRates"});
  find(library_, f.clock, {"nvmlDeviceGetClockInfo"});
  find(library_, f.power, {"nvmlDeviceGetPowerUsage"});
  find(library_, f.temperature, {"nvmlDeviceGetTemperature"});
  // The function got its new name with r535.
  find(library_, f.clock_events,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(library_, f.pci, {"nvmlDeviceGetPciInfo_v3"});
  find(library_, f.pcie_generation, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  find(library_, f.pcie_width, {"nvmlDeviceGetMaxPcieLinkWidth"});
  find(library_, f.link_state, {"nvmlDeviceGetNvLinkState"});
  find(library_, f.link_version, {"nvmlDeviceGetNvLinkVersion"});
  find(library_, f.link_remote_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
  find(library_, f.link_remote_pci, {"nvmlDeviceGetNvLinkRemotePciInfo_v2"});
  find(library_, f.common_ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
}

std::string NvmlLibrary::error_text(NvmlReturn status) const {
  const char* const text =
      functions_.error_text == nullptr ? nullptr : functions_.error_text(status);
  return text == nullptr ? fmt::format("NVML error {}", status) : std::string(text);
}

}  // namespace ddpbench::cuda
