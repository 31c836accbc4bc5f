// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the processor says about itself. Private to the runtime.
#pragma once

#include <string>
#include <vector>

namespace ddpbench {

// "AMD EPYC 9654 96-Core Processor"; "unknown" when the system does not say.
std::string cpu_model_name();

// Names of the instruction set extensions that matter to the kernels and that both the processor
// and the operating system support, as /proc/cpuinfo spells them: "avx2", "avx512_bf16", ...
std::vector<std::string> cpu_features();

}  // namespace ddpbench
