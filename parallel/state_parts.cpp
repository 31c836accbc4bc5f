// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/state_parts.h"

#include <algorithm>
#include <array>

namespace ddpbench {
namespace {

// As torch.optim calls them.
constexpr std::array<const char*, 1> kSgdSlots = {"momentum_buffer"};
constexpr std::array<const char*, ops::kMostSlots> kAdamSlots = {"exp_avg", "exp_avg_sq"};

}  // namespace

void add_slots(std::vector<StatePart>& parts, const StatePart& where,
               const ops::OptimizerOptions& options, std::byte* state, std::size_t count,
               std::size_t first, const std::string& prefix) {
  if (where.bytes == 0) return;
  ops::OptimizerState here;
  if (state != nullptr) here = ops::optimizer_state(options, state, count);
  for (std::size_t k = 0; k < ops::slot_count(options); ++k) {
    StatePart& part = parts.emplace_back(where);
    part.name = prefix + (options.is_adaptive() ? kAdamSlots[k] : kSgdSlots[k]);
    if (here.slots[k] == nullptr) continue;
    part.memory = {reinterpret_cast<std::byte*>(here.slots[k] + first), where.bytes};
  }
}

void add_counter(std::vector<StatePart>& parts, const StatePart& where,
                 const ops::OptimizerOptions& options, std::byte* state, std::size_t count) {
  if (where.bytes == 0 || !options.counts_updates()) return;
  StatePart& part = parts.emplace_back(where);
  part.kind = StatePart::Kind::counter;
  part.offset = 0;
  part.bytes = sizeof(ops::OptimizerStep);
  if (state == nullptr) return;
  ops::OptimizerStep* const step = ops::optimizer_state(options, state, count).step;
  part.memory = {reinterpret_cast<std::byte*>(step), part.bytes};
}

std::vector<StatePart> in_order(std::vector<StatePart> parts) {
  std::erase_if(parts, [](const StatePart& part) { return part.bytes == 0; });
  std::ranges::stable_sort(parts, {}, &StatePart::key);
  return parts;
}

}  // namespace ddpbench
