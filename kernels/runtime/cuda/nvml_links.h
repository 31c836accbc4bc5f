// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The connections of GPUs as NVML reports them, and calls of NVML functions that may be missing.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "kernels/runtime/cuda/nvml_library.h"
#include "kernels/runtime/gpu_monitor.h"

namespace ddpbench::cuda {

struct Gpu {
  NvmlDevice device = nullptr;
  std::string reason;  // why it cannot be queried; empty: it can
};

// Calls functions of the library. Returns why there is no answer; empty: there is one.
struct Caller {
  const NvmlLibrary& library;
  const std::string& reason;  // why no call can succeed; empty: calls are made

  template <typename Function, typename... Arguments>
  std::string operator()(Function function, const char* name, Arguments... arguments) const {
    if (!reason.empty()) return reason;
    if (function == nullptr) return fmt::format("this driver's NVML has no {}", name);
    const NvmlReturn status = function(arguments...);
    if (status == kNvmlSuccess) return {};
    return fmt::format("{}: {}", name, library.error_text(status));
  }
};

std::vector<GpuConnection> connections_of(const NvmlLibrary& library, const std::vector<Gpu>& gpus);

}  // namespace ddpbench::cuda
