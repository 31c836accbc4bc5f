// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How much of each value is kept, and its place in one arena. Values that never live at the same
// time share memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/nn/plan/plan.h"

namespace ddpbench::nn {

// A tensor occupies its bytes from call `first` to call `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one for each lifetime, multiples of kTensorAlignment
  std::size_t bytes = 0;             // of the arena
};

inline constexpr std::size_t kTensorAlignment = 64;

// Greedy by size: the largest first, each at the lowest offset where it meets no other that lives
// at the same time. O(n^2) for n tensors. (Pisarchyk and Lee, "Efficient memory management
// for deep neural net inference", 2020: within a few per cent of the lower bound for networks.)
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

// Sets placed, offset_bytes and stride_bytes of every value, and the plan's arena_bytes.
//
// A value that only one pass over the micro-batched part touches is scratch of one micro-batch. One
// that lives longer (backward reads it, or it crosses the micro-batched part's end) is kept for the
// whole batch.
void place_values(Plan& plan);

// The bytes of `value` that a call sees, within the micro-batched part (`micro`) or outside of it.
std::size_t bytes_at(const Plan& plan, int value, bool micro);

}  // namespace ddpbench::nn
