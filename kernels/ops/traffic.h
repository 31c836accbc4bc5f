// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Counted bytes: the least that a call must move between memory and processor. That is every
// operand once; an implementation's extra passes, workspace and copies do not count. Measured time
// times the bandwidth over these bytes is the distance from the memory bound (Williams, Waterman
// and Patterson's roofline, CACM 52(4), 2009).
#pragma once

#include <cstdint>

#include "kernels/ops/op.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::ops {

// It reads inputs and parameters (in bf16 where the operation reads such copies), and writes the
// output and what is saved.
double forward_bytes(const Op& op);
// It reads the output's gradient, what was saved, and the inputs and output that the operation
// needs; it writes the parameters' gradients. With `input_gradients` it also reads the parameters
// (as forward does) and writes the inputs' gradients.
double backward_bytes(const Op& op, bool input_gradients);

// The bytes of operations that are no Op; all fp32.
double optimizer_bytes(const OptimizerOptions& options, std::int64_t elements);
double mean_bytes(std::int64_t elements, std::int64_t inputs);
// It reads logits and labels, and writes the logits' gradient.
double loss_bytes(std::int64_t batch, std::int64_t classes);
// It reads bytes and writes fp32. A two-byte label becomes four bytes; its index has four.
double gather_bytes(std::int64_t batch, std::int64_t sample_elements);

}  // namespace ddpbench::ops
