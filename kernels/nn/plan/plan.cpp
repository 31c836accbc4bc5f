// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/plan/plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace ddpbench::nn {
namespace {

// Walks the forward calls from last to first. Each call gives gradients ("contributions") to the
// tensors that it read. They are summed before the walk reaches a tensor's producer.
class BackwardPlanner {
 public:
  BackwardPlanner(Plan& plan, ops::OpBackend& backend, bool input_gradient)
      : plan_(plan),
        backend_(backend),
        trained_(plan.values.size(), false),
        contributions_(plan.values.size()),
        producers_(plan.values.size(), nullptr),
        recomputed_(plan.values.size(), kNoValue) {
    trained_[index(plan.input)] = input_gradient;
    for (const PlannedCall& call : plan.forward) {
      producers_[index(call.output)] = &call;
      const bool any_input = std::any_of(call.inputs.begin(), call.inputs.end(),
                                         [&](int v) { return trained_[index(v)]; });
      trained_[index(call.output)] = any_input || call.is_trained;
    }
  }

  void run() {
    for (const int logits : plan_.logits) {
      const int gradient = add_value(plan_, layout_at(plan_, logits, false), false);
      plan_.output_gradients.push_back(gradient);
      contributions_[index(logits)] = {gradient};
    }
    for (auto call = plan_.forward.rbegin(); call != plan_.forward.rend(); ++call) {
      if (trained_[index(call->output)]) plan_call(*call);
    }
    if (trained_[index(plan_.input)]) plan_.input_gradient = summed_gradient(plan_.input, "input");
  }

 private:
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }

  void plan_call(const PlannedCall& forward) {
    const int more = part_to_add(forward);
    const int gradient = summed_gradient(forward.output, forward.name);
    if (forward.passes_gradient) {
      for (const int input : forward.inputs) {
        if (trained_[index(input)]) contributions_[index(input)].push_back(gradient);
      }
      return;
    }
    PlannedCall call = forward;
    call.direction = Direction::backward;
    call.grad_output = gradient;
    call.more_grad_output = more;
    call.state.clear();
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      call.inputs[i] =
          i < forward.op->plan().needed_inputs ? input_again(forward.inputs[i]) : kNoValue;
    }
    if (!forward.op->plan().needs_output) call.output = kNoValue;
    for (const int input : forward.inputs) {
      call.grad_inputs.push_back(trained_[index(input)] ? add_gradient(input, forward.micro)
                                                        : kNoValue);
    }
    plan_.backward.push_back(std::move(call));
  }

  // The value that backward reads in place of an input: the same, or its copy made anew. The
  // network's input has no producer.
  int input_again(int value) {
    const PlannedCall* const producer = producers_[index(value)];
    // An operation of the micro-batched part would be called once for each of them, so late that
    // calls of the whole batch are done.
    const bool again = producer != nullptr && producer->op->plan().recomputes_output &&
                       !producer->micro && trained_[index(value)];
    if (!again) return value;
    int& copy = recomputed_[index(value)];
    if (copy == kNoValue) copy = add_recompute(*producer);
    return copy;
  }

  int add_recompute(const PlannedCall& producer) {
    PlannedCall call = producer;
    call.direction = Direction::recompute;
    call.state.clear();
    call.output = add_value(plan_, layout_at(plan_, producer.output, false), false);
    plan_.backward.push_back(call);
    return call.output;
  }

  int add_gradient(int value, bool micro) {
    const int gradient = add_value(plan_, layout_at(plan_, value, micro), micro);
    contributions_[index(value)].push_back(gradient);
    return gradient;
  }

  // Takes the last contribution out, if the producer adds it to the sum of the others.
  int part_to_add(const PlannedCall& producer) {
    std::vector<int>& parts = contributions_[index(producer.output)];
    const bool adds = !producer.passes_gradient && producer.op->plan().adds_grad_outputs;
    if (!adds || parts.size() < 2) return kNoValue;
    const int last = parts.back();
    parts.pop_back();
    return last;
  }

  int summed_gradient(int value, const std::string& name) {
    const std::vector<int>& parts = contributions_[index(value)];
    ensure(!parts.empty(), "nothing gives a gradient to the output of {}", name);
    int sum = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) sum = add_sum(value, name, sum, parts[i]);
    return sum;
  }

  int add_sum(int value, const std::string& name, int a, int b) {
    const ops::TensorLayout layout = plan_.values[index(value)].layout;
    const bool micro = plan_.values[index(value)].micro;
    plan_.operations.push_back(backend_.make(ops::AddDesc{.input = layout}));
    ops::Op* op = plan_.operations.back().get();
    ensure(op->plan().inputs[0] == layout && op->plan().inputs[1] == layout &&
               op->plan().output == layout,
           "the backend cannot add gradients of layout {}", layout.tag);
    const int sum = add_value(plan_, layout, micro);
    plan_.backward.push_back({.name = name + " gradients summed",
                              .op = op,
                              .micro = micro,
                              .inputs = {a, b},
                              .output = sum});
    return sum;
  }

  Plan& plan_;
  ops::OpBackend& backend_;
  std::vector<bool> trained_;                    // of the forward values
  std::vector<std::vector<int>> contributions_;  // gradients of each forward value
  std::vector<const PlannedCall*> producers_;    // of the forward values; null: the input
  std::vector<int> recomputed_;                  // each forward value's copy, if backward makes one
};

// ---- memory ----

// Lifetimes are counted in calls of one training step: forward's, the loss, backward's, and the
// time after, when the logits may still be read. The micro-batched part's calls form a loop in each
// pass. A value of the whole batch that a loop touches lives during all of the loop.

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
    touch(plan.input_gradient, time, kOutside);
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
    const std::size_t slice = layout_at(plan_, index, true).bytes;
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

ops::TensorLayout layout_at(const Plan& plan, int value, bool micro) {
  const Value& v = plan.values[static_cast<std::size_t>(value)];
  if (v.micro == micro) return v.layout;
  ensure(v.layout.is_plain(), "a tensor of layout {} crosses the micro-batched part's end",
         v.layout.tag);
  ops::Shape shape = v.layout.shape;
  shape[0] = micro ? plan.micro_batch : plan.batch;
  return ops::TensorLayout::plain(std::move(shape), v.layout.type);
}

int add_value(Plan& plan, ops::TensorLayout layout, bool micro) {
  plan.values.push_back({.layout = std::move(layout), .micro = micro});
  return static_cast<int>(plan.values.size()) - 1;
}

void plan_backward(Plan& plan, ops::OpBackend& backend, bool input_gradient) {
  BackwardPlanner(plan, backend, input_gradient).run();
}

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

void place_values(Plan& plan) { Placement(plan).run(); }

}  // namespace ddpbench::nn
