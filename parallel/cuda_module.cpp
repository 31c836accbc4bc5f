// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/cuda_module.h"

#include <dlfcn.h>

#include "base/error.h"

namespace ddpbench {

const CudaModule& open_cuda_module(const std::string& path) {
  // RTLD_LOCAL keeps the module's own libraries private; RTLD_NOW shows a missing function here.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw UnavailableError(fmt::format("the CUDA module cannot be opened: {}", ::dlerror()));
  }
  const auto entry = reinterpret_cast<CudaModuleEntry>(::dlsym(library, kCudaModuleEntryName));
  const CudaModule* const module = entry == nullptr ? nullptr : entry(kModuleBuild);
  if (module == nullptr) {
    throw UnavailableError(
        fmt::format("{} was built from other sources than this program; build both again", path));
  }
  module->share_pauses(comm::DeadlineClock::pauses());
  return *module;
}

}  // namespace ddpbench
