// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one function that the module of an engine exports. Each module compiles it.
#include <cstring>

#include "parallel/comm/comm_module.h"

extern "C" __attribute__((visibility("default"))) const ddpbench::comm::CommModule*
ddpbench_comm_module(const char* build) {
  return std::strcmp(build, ddpbench::kModuleBuild) == 0 ? &ddpbench::comm::engine_module()
                                                         : nullptr;
}
