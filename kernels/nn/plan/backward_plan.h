// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Derives the backward steps from the forward steps.
#pragma once

#include "kernels/nn/plan/plan.h"
#include "kernels/ops/backend.h"

namespace ddpbench::nn {

// Adds plan.backward and plan.output_gradient. Gradients of a tensor that several steps read are
// summed, in the order in which they are computed.
void plan_backward(Plan& plan, ops::OpBackend& backend);

}  // namespace ddpbench::nn
