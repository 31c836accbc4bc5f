// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Counted bytes: what a call has to move between memory and processor at the least, that is every
// operand once, whatever an implementation does beside it (a pass of its own, a workspace, a
// transformed copy). Measured time times a memory's bandwidth over these bytes is how far the call
// is from the memory bound (Williams, Waterman and Patterson's roofline, CACM 52(4), 2009).
#pragma once

#include <cstdint>

#include "kernels/ops/op.h"

namespace ddpbench::ops {

// Reads inputs and parameters (in bf16 where the operation reads such copies), writes output and
// what is saved.
double forward_bytes(const Op& op);
// Reads the output's gradient, what was saved, and of inputs and output what the operation needs;
// writes the parameters' gradients. With `input_gradients` it reads the parameters, too (as forward
// does), and writes those.
double backward_bytes(const Op& op, bool input_gradients);

// The operations that are no Op; all fp32.
double sgd_bytes(std::int64_t elements, bool momentum);
double mean_bytes(std::int64_t elements, std::int64_t inputs);
// Logits and labels in, the logits' gradient out.
double loss_bytes(std::int64_t batch, std::int64_t classes);
// Bytes in, fp32 out; a label of one byte becomes one of four, by way of an index of four.
double gather_bytes(std::int64_t batch, std::int64_t sample_elements);

}  // namespace ddpbench::ops
