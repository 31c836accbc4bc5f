// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Walks the forward steps from last to first. Each step hands gradients ("contributions") to the
// tensors that it read; before a tensor's own producer runs, they are summed.
#include "kernels/nn/plan/backward_plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ddpbench::nn {
namespace {

class BackwardPlanner {
 public:
  BackwardPlanner(Plan& plan, ops::OpBackend& backend)
      : plan_(plan),
        backend_(backend),
        trained_(plan.values.size(), false),
        contributions_(plan.values.size()) {
    for (const Step& step : plan.forward) {
      const bool any_input = std::any_of(step.inputs.begin(), step.inputs.end(),
                                         [&](int v) { return trained_[index(v)]; });
      trained_[index(step.output)] = any_input || !step.parameters.empty();
    }
  }

  void run() {
    plan_.output_gradient = add_value(plan_, layout_at(plan_, plan_.logits, false), false);
    contributions_[index(plan_.logits)] = {plan_.output_gradient};
    for (auto step = plan_.forward.rbegin(); step != plan_.forward.rend(); ++step) {
      if (trained_[index(step->output)]) plan_step(*step);
    }
  }

 private:
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }

  void plan_step(const Step& forward) {
    const int gradient = summed_gradient(forward);
    if (forward.passes_gradient) {
      for (const int input : forward.inputs) {
        if (trained_[index(input)]) contributions_[index(input)].push_back(gradient);
      }
      return;
    }
    Step step = forward;
    step.direction = Direction::backward;
    step.grad_output = gradient;
    if (!forward.op->backward_needs_inputs()) step.inputs.assign(forward.inputs.size(), kNoValue);
    if (!forward.op->backward_needs_output()) step.output = kNoValue;
    for (const int input : forward.inputs) {
      step.grad_inputs.push_back(trained_[index(input)] ? add_gradient(input, forward.micro)
                                                        : kNoValue);
    }
    plan_.backward.push_back(std::move(step));
  }

  int add_gradient(int value, bool micro) {
    const int gradient = add_value(plan_, layout_at(plan_, value, micro), micro);
    contributions_[index(value)].push_back(gradient);
    return gradient;
  }

  int summed_gradient(const Step& producer) {
    const std::vector<int>& parts = contributions_[index(producer.output)];
    ensure(!parts.empty(), "nothing gives a gradient to the output of {}", producer.name);
    int sum = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) sum = add_sum(producer, sum, parts[i]);
    return sum;
  }

  int add_sum(const Step& producer, int a, int b) {
    const ops::TensorLayout& layout = producer.op->output_layout();
    plan_.operations.push_back(backend_.add({.input = layout}));
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
};

}  // namespace

void plan_backward(Plan& plan, ops::OpBackend& backend) { BackwardPlanner(plan, backend).run(); }

}  // namespace ddpbench::nn
