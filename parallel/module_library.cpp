// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/module_library.h"

#include <dlfcn.h>

#include "base/error.h"
#include "parallel/cuda_module.h"

namespace ddpbench {

void* open_library(const std::string& path, const char* entry, std::string_view title) {
  // RTLD_LOCAL keeps the module's own libraries private; RTLD_NOW shows a missing function here.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw UnavailableError(fmt::format("{} cannot be opened: {}", title, ::dlerror()));
  }
  return ::dlsym(library, entry);
}

void throw_other_build(const std::string& path) {
  throw UnavailableError(
      fmt::format("{} was built from other sources than this program; build both again", path));
}

const CudaModule& open_cuda_module(const std::string& path) {
  return open_module<CudaModuleEntry>(path, kCudaModuleEntryName, "the CUDA module", kModuleBuild);
}

}  // namespace ddpbench
