// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lifetimes are counted in steps of one training step: forward steps, the loss, backward steps, and
// the time after, in which the logits may still be read. The segment's steps form a loop in each
// pass: what a loop reads or writes of the whole batch lives during all of it.
#include "kernels/nn/plan/value_placement.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "kernels/nn/plan/alignment.h"
#include "kernels/nn/plan/memory_plan.h"

namespace ddpbench::nn {
namespace {

// What touches a value: the loop over micro-batches of either pass, or steps outside both.
enum Place : std::size_t { kForwardLoop, kOutside, kBackwardLoop, kPlaceCount };

struct Use {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t last = 0;
  std::array<bool, kPlaceCount> places{};

  bool touched() const { return first <= last; }
  bool by_loop() const { return places[kForwardLoop] || places[kBackwardLoop]; }
  // A loop's own scratch is overwritten by its next micro-batch.
  bool kept() const { return by_loop() && std::count(places.begin(), places.end(), true) > 1; }
};

class Placement {
 public:
  explicit Placement(Plan& plan) : plan_(plan), uses_(plan.values.size()) {
    std::size_t time = 0;
    for (const Step& step : plan.forward) touch_all(step, time++);
    if (plan.output_gradient != kNoValue) touch(plan.output_gradient, time, kOutside);
    touch(plan.logits, time++, kOutside);
    for (const Step& step : plan.backward) touch_all(step, time++);
    touch(plan.logits, time, kOutside);
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
  void touch_all(const Step& step, std::size_t time) {
    const bool forward = time < plan_.forward.size();
    const Place place = !step.micro ? kOutside : forward ? kForwardLoop : kBackwardLoop;
    if (step.micro) {
      loops_[place].first = std::min(loops_[place].first, time);
      loops_[place].last = std::max(loops_[place].last, time);
    }
    for (const int value : {step.output, step.saved, step.grad_output}) touch(value, time, place);
    for (const int value : step.inputs) touch(value, time, place);
    for (const int value : step.grad_inputs) touch(value, time, place);
  }

  void touch(int value, std::size_t time, Place place) {
    if (value == kNoValue) return;
    Use& use = uses_[static_cast<std::size_t>(value)];
    use.first = std::min(use.first, time);
    use.last = std::max(use.last, time);
    use.places[place] = true;
  }

  // Also sets the value's stride.
  Lifetime lifetime(int index) {
    Value& value = plan_.values[static_cast<std::size_t>(index)];
    const Use& use = uses_[static_cast<std::size_t>(index)];
    Lifetime life{value.layout.bytes, use.first, use.last};
    if (!use.kept()) return life;
    const std::size_t slice = bytes_at(plan_, index, true);
    // Steps outside the loops see the batch as one tensor: then there may be no gaps in it.
    value.stride_bytes = use.places[kOutside] ? slice : align_up(slice, kTensorAlignment);
    life.bytes = value.stride_bytes * plan_.calls(true);
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

std::size_t bytes_at(const Plan& plan, int value, bool micro) {
  return layout_at(plan, value, micro).bytes;
}

void place_values(Plan& plan) { Placement(plan).run(); }

}  // namespace ddpbench::nn
