// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Opening the libraries that a program loads only when it needs them (CudaModule, CommModule).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/shared_library.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/cuda_module.h"

namespace ddpbench {

// Opens the module at `path`, whose exported function `entry` is an `Entry`, until the process
// ends. `title` is for messages: "the CUDA module". The program's deadlines hold in it. Throws
// UnavailableError, also when the module is of another build.
template <typename Entry>
auto& open_module(const std::string& path, const char* entry, std::string_view title,
                  const char* build) {
  void* const library = open_library(path, fmt::format("{} cannot be opened", title));
  const auto function = reinterpret_cast<Entry>(find_in_library(library, entry));
  const auto* const module = function == nullptr ? nullptr : function(build);
  if (module == nullptr) {
    throw UnavailableError(
        fmt::format("{} was built from other sources than this program; build both again", path));
  }
  module->share_pauses(comm::DeadlineClock::pauses());
  return *module;
}

// Opens the CUDA module, as above.
inline const CudaModule& open_cuda_module(const std::string& path) {
  return open_module<CudaModuleEntry>(path, kCudaModuleEntryName, "the CUDA module", kModuleBuild);
}

}  // namespace ddpbench
