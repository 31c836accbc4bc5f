// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The choices of the oneDNN backend, for code that does not know oneDNN.
#pragma once

#include <memory>
#include <string>

#include "kernels/ops/backend.h"

namespace ddpbench::ops {

// make_onednn_backend (backend.h) with the type of activations and their gradients: fp32 or bf16.
// Weights, their gradients, optimizer and loss are fp32 in both. Throws UnavailableError where CPU
// devices do not compute in it here.
std::unique_ptr<OpBackend> make_onednn_backend(Device& device, DataType activations);

// Why CPU devices do not compute in bf16 here; empty: they do. The processor needs instructions for
// it (avx512_bf16 or AMX), and oneDNN must be allowed to use them (ONEDNN_MAX_CPU_ISA). If oneDNN
// would use AMX, this requests the permission for AMX tiles, for the rest of the process.
std::string why_no_cpu_bf16();
// Whether CPU devices may compute in bf16 in AMX's tiles here.
bool cpu_bf16_uses_amx();

}  // namespace ddpbench::ops
