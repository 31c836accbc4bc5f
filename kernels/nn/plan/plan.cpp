// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/plan/plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ddpbench::nn {
namespace {

// Walks the forward calls from last to first. Each call gives gradients ("contributions") to the
// tensors that it read. They are summed before the walk reaches a tensor's producer.
class BackwardPlanner {
 public:
  BackwardPlanner(Plan& plan, ops::OpBackend& backend)
      : plan_(plan),
        backend_(backend),
        trained_(plan.values.size(), false),
        contributions_(plan.values.size()),
        producers_(plan.values.size(), nullptr),
        recomputed_(plan.values.size(), kNoValue) {
    for (const PlannedCall& call : plan.forward) {
      producers_[index(call.output)] = &call;
      const bool any_input = std::any_of(call.inputs.begin(), call.inputs.end(),
                                         [&](int v) { return trained_[index(v)]; });
      trained_[index(call.output)] = any_input || !call.parameters.empty();
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
  }

 private:
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }

  void plan_call(const PlannedCall& forward) {
    const int more = part_to_add(forward);
    const int gradient = summed_gradient(forward);
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
          forward.op->backward_needs_input(i) ? input_again(forward.inputs[i]) : kNoValue;
    }
    if (!forward.op->backward_needs_output()) call.output = kNoValue;
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
    const bool again = producer != nullptr && producer->op->recomputes_output() &&
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
    const bool adds = !producer.passes_gradient && producer.op->adds_grad_outputs();
    if (!adds || parts.size() < 2) return kNoValue;
    const int last = parts.back();
    parts.pop_back();
    return last;
  }

  int summed_gradient(const PlannedCall& producer) {
    const std::vector<int>& parts = contributions_[index(producer.output)];
    ensure(!parts.empty(), "nothing gives a gradient to the output of {}", producer.name);
    int sum = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) sum = add_sum(producer, sum, parts[i]);
    return sum;
  }

  int add_sum(const PlannedCall& producer, int a, int b) {
    const ops::TensorLayout& layout = producer.op->output_layout();
    plan_.operations.push_back(backend_.make(ops::AddDesc{.input = layout}));
    ops::Op* op = plan_.operations.back().get();
    ensure(op->input_layout(0) == layout && op->input_layout(1) == layout &&
               op->output_layout() == layout,
           "the backend cannot add gradients of layout {}", layout.tag);
    const int sum = add_value(plan_, layout, producer.micro);
    plan_.backward.push_back({.name = producer.name + " gradients summed",
                              .op = op,
                              .micro = producer.micro,
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

void plan_backward(Plan& plan, ops::OpBackend& backend) { BackwardPlanner(plan, backend).run(); }

}  // namespace ddpbench::nn
