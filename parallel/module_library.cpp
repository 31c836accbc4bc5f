// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/module_library.h"

#include "base/error.h"
#include "parallel/cuda_module.h"

namespace ddpbench {

void throw_other_build(const std::string& path) {
  throw UnavailableError(
      fmt::format("{} was built from other sources than this program; build both again", path));
}

const CudaModule& open_cuda_module(const std::string& path) {
  return open_module<CudaModuleEntry>(path, kCudaModuleEntryName, "the CUDA module", kModuleBuild);
}

}  // namespace ddpbench
