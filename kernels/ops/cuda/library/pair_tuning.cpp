// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Both ways share all memory but the map between the two operations.
#include "kernels/ops/cuda/library/pair_tuning.h"

#include <algorithm>
#include <array>

#include "kernels/ops/cuda/library/autotuner.h"

namespace ddpbench::ops::cuda {
namespace {

class PairTuning {
 public:
  PairTuning(const Context& context, Op& both, Op& first, Op& second, const std::string& where)
      : both_(both),
        first_(first),
        second_(second),
        where_(where),
        x_(first.input_layout(0).bytes, where),
        map_(first.output_layout().bytes, where),
        map_gradient_(first.output_layout().bytes, where),
        y_(second.output_layout().bytes, where),
        dy_(second.output_layout().bytes, where),
        saved_(std::max(both.saved_bytes(), second.saved_bytes()), where),
        workspace_(
            std::max({both.workspace_bytes(), first.workspace_bytes(), second.workspace_bytes()}),
            where),
        tuning_(context) {
    fill(x_, first.input_layout(0));
    fill(dy_, second.output_layout());
    for (const ParameterSpec& spec : first.parameters()) {
      fill(*memory_.emplace_back(std::make_unique<PlanningMemory>(spec.layout.bytes, where)),
           spec.layout);
      parameters_.push_back(memory_.back()->data());
      memory_.push_back(std::make_unique<PlanningMemory>(spec.layout.bytes, where));
      gradients_.push_back(memory_.back()->data());
      if (!first.reads_bf16_weights()) continue;
      const TensorLayout bf16 = in_bf16(spec.layout);
      fill(*memory_.emplace_back(std::make_unique<PlanningMemory>(bf16.bytes, where)), bf16);
      bf16_weights_.push_back(memory_.back()->data());
    }
  }

  double both_s() {
    return tuning_.recorded_s([&] {
      forward(both_, x_.data(), y_.data());
      backward(both_, x_.data(), y_.data(), dy_.data(), nullptr);
    });
  }

  double apart_s() {
    return tuning_.recorded_s([&] {
      forward(first_, x_.data(), map_.data());
      forward(second_, map_.data(), y_.data());
      backward(second_, nullptr, nullptr, dy_.data(), map_gradient_.data());
      backward(first_, x_.data(), map_.data(), map_gradient_.data(), nullptr);
    });
  }

 private:
  void fill(const PlanningMemory& memory, const TensorLayout& layout) {
    tuning_.fill(layout.type, memory, element_count(layout.shape), where_);
  }

  void forward(Op& op, const void* input, void* output) {
    const std::array<const void*, 1> inputs = {input};
    op.forward(tuning_.stream(), {.inputs = inputs,
                                  .output = output,
                                  .parameters = parameters_,
                                  .saved = saved_.data(),
                                  .workspace = workspace_.data(),
                                  .bf16_weights = bf16_weights_});
  }

  void backward(Op& op, const void* input, const void* output, const void* gradient,
                void* input_gradient) {
    const std::array<const void*, 1> inputs = {input};
    const std::array<void*, 1> input_gradients = {input_gradient};
    op.backward(tuning_.stream(), {.inputs = inputs,
                                   .output = output,
                                   .grad_output = gradient,
                                   .grad_inputs = input_gradients,
                                   .parameters = parameters_,
                                   .grad_parameters = gradients_,
                                   .saved = saved_.data(),
                                   .workspace = workspace_.data(),
                                   .bf16_weights = bf16_weights_});
  }

  Op &both_, &first_, &second_;
  const std::string& where_;
  PlanningMemory x_, map_, map_gradient_, y_, dy_, saved_, workspace_;
  std::vector<std::unique_ptr<PlanningMemory>> memory_;  // of parameters
  std::vector<const void*> parameters_, bf16_weights_;
  std::vector<void*> gradients_;
  TuningStream tuning_;
};

}  // namespace

bool is_faster_in_one(const Context& context, Op& both, Op& first, Op& second,
                      const std::string& where) {
  PairTuning tuning(context, both, first, second, where);
  return tuning.both_s() <= tuning.apart_s();
}

}  // namespace ddpbench::ops::cuda
