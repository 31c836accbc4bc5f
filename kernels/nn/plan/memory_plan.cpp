// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Greedy-by-size offset assignment.
#include "kernels/nn/plan/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/nn/plan/alignment.h"

namespace ddpbench::nn {
namespace {

using Range = std::pair<std::size_t, std::size_t>;  // begin and end offset

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// The lowest offset where `bytes` fit between `taken`, which is sorted here.
std::size_t lowest_gap(std::vector<Range>& taken, std::size_t bytes) {
  std::sort(taken.begin(), taken.end());
  std::size_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (begin >= offset + bytes) break;
    offset = std::max(offset, end);
  }
  return offset;
}

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });

  MemoryPlan plan{std::vector<std::size_t>(lifetimes.size(), 0), 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t current = order[i];
    std::vector<Range> taken;
    for (std::size_t j = 0; j < i; ++j) {
      const std::size_t other = order[j];
      if (!meet(lifetimes[current], lifetimes[other])) continue;
      const std::size_t end = plan.offsets[other] + lifetimes[other].bytes;
      taken.emplace_back(plan.offsets[other], align_up(end, kTensorAlignment));
    }
    const std::size_t offset = lowest_gap(taken, lifetimes[current].bytes);
    plan.offsets[current] = offset;
    plan.bytes =
        std::max(plan.bytes, align_up(offset + lifetimes[current].bytes, kTensorAlignment));
  }
  return plan;
}

}  // namespace ddpbench::nn
