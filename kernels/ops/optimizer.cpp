// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/optimizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::ops {
namespace {

constexpr std::size_t kSlotAlignment = 64;

std::size_t slot_bytes(std::size_t count) {
  return round_up(count * sizeof(float), kSlotAlignment);
}

template <typename Names>
std::ptrdiff_t index_of(const Names& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  ensure(found != names.end(), "neither optimizer nor schedule is called {}", name);
  return found - names.begin();
}

}  // namespace

OptimizerKind optimizer_kind(std::string_view name) {
  return static_cast<OptimizerKind>(index_of(kOptimizerNames, name));
}

ScheduleKind schedule_kind(std::string_view name) {
  return static_cast<ScheduleKind>(index_of(kScheduleNames, name));
}

std::size_t slot_count(const OptimizerOptions& options) {
  if (options.is_adaptive()) return 2;
  return options.momentum != 0 ? 1 : 0;
}

std::size_t optimizer_state_bytes(const OptimizerOptions& options, std::size_t count) {
  static_assert(sizeof(OptimizerStep) <= kSlotAlignment);
  return slot_count(options) * slot_bytes(count) + (options.counts_updates() ? kSlotAlignment : 0);
}

OptimizerState optimizer_state(const OptimizerOptions& options, void* state, std::size_t count) {
  const bool has_none = count == 0 || optimizer_state_bytes(options, count) == 0;
  ensure(state != nullptr || has_none, "{} has no memory for its state", to_string(options.kind));
  OptimizerState parts;
  if (state == nullptr) return parts;
  auto* next = static_cast<std::byte*>(state);
  for (std::size_t slot = 0; slot < slot_count(options); ++slot) {
    parts.slots[slot] = reinterpret_cast<float*>(next);
    next += slot_bytes(count);
  }
  if (options.counts_updates()) parts.step = reinterpret_cast<OptimizerStep*>(next);
  return parts;
}

OptimizerState state_of(const OptimizerArgs& args) {
  const std::size_t whole = args.state_count > 0 ? args.state_count : args.count;
  ensure(args.state_first + args.count <= whole, "an update of elements {} to {} of {}",
         args.state_first, args.state_first + args.count, whole);
  OptimizerState state = optimizer_state(args.options, args.state, whole);
  for (float*& slot : state.slots) {
    if (slot != nullptr) slot += args.state_first;
  }
  return state;
}

}  // namespace ddpbench::ops
