// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Decides how much of each value is kept and where in the arena it lives.
#pragma once

#include "kernels/nn/plan/plan.h"

namespace ddpbench::nn {

// Sets placed, offset_bytes and stride_bytes of every value and the plan's arena_bytes.
//
// A value that only one pass over the segment touches is scratch of one micro-batch; one that lives
// longer (backward reads it, or it crosses the segment's end) is kept for the whole batch.
void place_values(Plan& plan);

// Bytes that a step of the segment (`micro`) or another one sees of `value` in one call.
std::size_t bytes_at(const Plan& plan, int value, bool micro);

}  // namespace ddpbench::nn
