// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which of the processor's instructions oneDNN uses.
#pragma once

#include <string>

namespace ddpbench::ops::onednn {

// Keeps oneDNN from instructions that do not work here (AMX in some virtual machines). To be called
// before any other use of oneDNN in the process; later calls do nothing. What the user has set
// (ONEDNN_MAX_CPU_ISA) stands.
void limit_instructions();

// Whether oneDNN may compute bf16 products in AMX's tiles here.
bool uses_amx();

// why_no_cpu_bf16 (kernels/ops/backend.h).
std::string why_no_bf16();

}  // namespace ddpbench::ops::onednn
