// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Opening the libraries that a program loads only when it needs them (CudaModule, CommModule).
#pragma once

#include <string>
#include <string_view>

#include "parallel/comm/store/deadline.h"

namespace ddpbench {

// The address of the function `entry` in the library at `path`, which stays open until the process
// ends. Throws UnavailableError with the loader's own words, which name a missing library.
// `title` is for messages: "the CUDA module".
void* open_library(const std::string& path, const char* entry, std::string_view title);
[[noreturn]] void throw_other_build(const std::string& path);

// Opens the module at `path`, whose exported function `entry` is an `Entry`. The program's
// deadlines hold in it. Throws UnavailableError, also when the module is of another build.
template <typename Entry>
auto& open_module(const std::string& path, const char* entry, std::string_view title,
                  const char* build) {
  const auto function = reinterpret_cast<Entry>(open_library(path, entry, title));
  const auto* const module = function == nullptr ? nullptr : function(build);
  if (module == nullptr) throw_other_build(path);
  module->share_pauses(comm::DeadlineClock::pauses());
  return *module;
}

}  // namespace ddpbench
