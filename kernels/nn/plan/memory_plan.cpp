// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lifetimes are counted in calls of one training step: forward's, the loss, backward's, and the
// time after, when the logits may still be read. The micro-batched part's calls form a loop in each
// pass. A value of the whole batch that a loop touches lives during all of the loop.
#include "kernels/nn/plan/memory_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::nn {
namespace {

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

struct Placed {
  Lifetime life;
  std::size_t begin = 0, end = 0;  // offsets
};

// The lowest offset where `life` fits between those of `placed`, in the order of their offsets,
// that live at the same time.
std::size_t lowest_gap(const std::vector<Placed>& placed, const Lifetime& life) {
  std::size_t offset = 0;
  for (const Placed& other : placed) {
    if (other.begin >= offset + life.bytes) break;
    if (meet(life, other.life)) offset = std::max(offset, other.end);
  }
  return offset;
}

// Where a value is touched: in the loop over micro-batches of either pass, or outside of both.
enum Place : std::size_t { kForwardLoop, kOutside, kBackwardLoop, kPlaceCount };

struct Use {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;
  std::array<bool, kPlaceCount> places{};

  bool touched() const { return first <= last; }
  bool by_loop() const { return places[kForwardLoop] || places[kBackwardLoop]; }
  // A loop's own scratch is overwritten by the next micro-batch.
  bool kept() const { return by_loop() && std::count(places.begin(), places.end(), true) > 1; }
};

class Placement {
 public:
  explicit Placement(Plan& plan) : plan_(plan), uses_(plan.values.size()) {
    std::size_t time = 0;
    for (const PlannedCall& call : plan.forward) touch_all(call, time++);
    for (const int gradient : plan.output_gradients) touch(gradient, time, kOutside);
    for (const int logits : plan.logits) touch(logits, time, kOutside);
    ++time;
    for (const PlannedCall& call : plan.backward) touch_all(call, time++);
    for (const int logits : plan.logits) touch(logits, time, kOutside);
  }

  void run() {
    std::vector<Lifetime> lifetimes;
    std::vector<Value*> owners;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (!uses_[i].touched() || static_cast<int>(i) == plan_.input) continue;
      owners.push_back(&plan_.values[i]);
      lifetimes.push_back(lifetime(static_cast<int>(i)));
    }
    const MemoryPlan memory = plan_memory(lifetimes);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      owners[i]->placed = true;
      owners[i]->offset_bytes = memory.offsets[i];
    }
    plan_.arena_bytes = memory.bytes;
  }

 private:
  void touch_all(const PlannedCall& call, std::size_t time) {
    const bool forward = time < plan_.forward.size();
    const Place place = !call.micro ? kOutside : forward ? kForwardLoop : kBackwardLoop;
    if (call.micro) {
      loops_[place].first = std::min(loops_[place].first, time);
      loops_[place].last = std::max(loops_[place].last, time);
    }
    for (const int value : {call.output, call.saved, call.grad_output, call.more_grad_output}) {
      touch(value, time, place);
    }
    for (const int value : call.inputs) touch(value, time, place);
    for (const int value : call.grad_inputs) touch(value, time, place);
  }

  void touch(int value, std::size_t time, Place place) {
    if (value == kNoValue) return;
    Use& use = uses_[static_cast<std::size_t>(value)];
    use.first = std::min(use.first, time);
    use.last = std::max(use.last, time);
    use.places[place] = true;
  }

  // Returns the value's lifetime and sets its stride.
  Lifetime lifetime(int index) {
    Value& value = plan_.values[static_cast<std::size_t>(index)];
    const Use& use = uses_[static_cast<std::size_t>(index)];
    Lifetime life{value.layout.bytes, use.first, use.last};
    if (!use.kept()) return life;
    const std::size_t slice = bytes_at(plan_, index, true);
    // Calls outside the loops see the batch as one tensor, which may have no gaps.
    value.stride_bytes = use.places[kOutside] ? slice : round_up(slice, kTensorAlignment);
    life.bytes = value.stride_bytes * plan_.repeats(true);
    for (const Place loop : {kForwardLoop, kBackwardLoop}) {
      if (!use.places[loop]) continue;
      life.first = std::min(life.first, loops_[loop].first);
      life.last = std::max(life.last, loops_[loop].last);
    }
    return life;
  }

  Plan& plan_;
  std::vector<Use> uses_;
  std::array<Use, kPlaceCount> loops_;
};

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });

  MemoryPlan plan{std::vector<std::size_t>(lifetimes.size(), 0), 0};
  std::vector<Placed> placed;
  placed.reserve(order.size());
  for (const std::size_t current : order) {
    const Lifetime& life = lifetimes[current];
    const std::size_t offset = lowest_gap(placed, life);
    const std::size_t end = round_up(offset + life.bytes, kTensorAlignment);
    plan.offsets[current] = offset;
    plan.bytes = std::max(plan.bytes, end);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Placed::begin),
                  {life, offset, end});
  }
  return plan;
}

std::size_t bytes_at(const Plan& plan, int value, bool micro) {
  return layout_at(plan, value, micro).bytes;
}

void place_values(Plan& plan) { Placement(plan).run(); }

}  // namespace ddpbench::nn
