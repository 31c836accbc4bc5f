// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Gives tensors offsets in one arena so that those that never live at the same time share memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ddpbench::nn {

// A tensor occupies its bytes from step `first` to step `last`, both included.
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
// at the same time (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
// 2020: within a few per cent of the lower bound for networks). O(n^2 log n) for n tensors.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace ddpbench::nn
