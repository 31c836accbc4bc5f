// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the operations of all backends share: a plan that answers the questions of Op, and the shape
// checks, so that all backends give the same errors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/dropout_mask.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops {

// All that Op says about itself. Plain data, filled while planning.
struct OpPlan {
  std::string description;
  std::vector<TensorLayout> inputs;
  TensorLayout output;
  std::vector<ParameterSpec> parameters;
  std::vector<StateSpec> state;
  std::size_t saved_bytes = 0;
  std::size_t workspace_bytes = 0;
  std::size_t needed_inputs = 0;  // backward reads the first so many
  bool needs_output = false;
  bool recomputes_output = false;
  bool adds_grad_outputs = false;
  bool couples_samples = false;
  bool draws_random_numbers = false;
  bool reads_bf16_weights = false;
  double forward_flops = 0;
  double backward_flops = 0;
  std::size_t forward_exchange_bytes = 0;
  std::size_t backward_exchange_bytes = 0;
};

// An Op whose answers come from its plan; forward and backward are left to the derived class.
class PlannedOp : public Op {
 public:
  std::string description() const override { return plan_.description; }
  std::size_t input_count() const override { return plan_.inputs.size(); }
  const TensorLayout& input_layout(std::size_t i) const override { return plan_.inputs.at(i); }
  const TensorLayout& output_layout() const override { return plan_.output; }
  std::vector<ParameterSpec> parameters() const override { return plan_.parameters; }
  std::vector<StateSpec> state() const override { return plan_.state; }
  std::size_t saved_bytes() const override { return plan_.saved_bytes; }
  std::size_t workspace_bytes() const override { return plan_.workspace_bytes; }
  bool backward_needs_input(std::size_t i) const override { return i < plan_.needed_inputs; }
  bool backward_needs_output() const override { return plan_.needs_output; }
  bool recomputes_output() const override { return plan_.recomputes_output; }
  bool adds_grad_outputs() const override { return plan_.adds_grad_outputs; }
  bool couples_samples() const override { return plan_.couples_samples; }
  bool draws_random_numbers() const override { return plan_.draws_random_numbers; }
  bool reads_bf16_weights() const override { return plan_.reads_bf16_weights; }
  double forward_flops() const override { return plan_.forward_flops; }
  double backward_flops() const override { return plan_.backward_flops; }
  std::size_t forward_exchange_bytes() const override { return plan_.forward_exchange_bytes; }
  std::size_t backward_exchange_bytes() const override { return plan_.backward_exchange_bytes; }

 protected:
  explicit PlannedOp(OpPlan plan) : plan_(std::move(plan)) {}
  PlannedOp() = default;
  OpPlan plan_;
};

// An operation whose inputs and output all have one layout, of any kind. Throws ConfigError for
// a layout without elements.
class ElementwiseOp : public PlannedOp {
 protected:
  ElementwiseOp(const TensorLayout& layout, const char* name, std::size_t inputs);
};

// dropout over `layout`, which is plain: the mask has the order of elements in memory.
class DropoutOp : public ElementwiseOp {
 protected:
  // Throws ConfigError for a p that is no probability below 1.
  DropoutOp(const DropoutDesc& desc, const TensorLayout& layout);

  std::int64_t samples() const { return plan_.output.shape[0]; }
  std::int64_t elements() const;  // of a sample
  const DropoutMask& mask() const { return mask_; }

 private:
  DropoutMask mask_;
};

// Shapes of the results. Throws ConfigError that names the given shapes when there is no result.
Shape output_shape(const Conv2dDesc& desc);             // [batch, out, oh, ow]
Shape output_shape(const BatchNorm2dDesc& desc);        // the input's
Shape output_shape(const MaxPool2dDesc& desc);          // [batch, channels, oh, ow]
Shape output_shape(const LinearDesc& desc);             // [batch, out_features]
Shape output_shape(const AvgPool2dDesc& desc);          // as max_pool2d
Shape output_shape(const AdaptiveAvgPool2dDesc& desc);  // [batch, channels, out_h, out_w]
Shape output_shape(const ConcatDesc& desc);             // [batch, sum of channels, ...]
Shape weight_shape(const Conv2dDesc& desc);             // [out, in / groups, kh, kw]
// Checks a shape for operations that work element by element and for both sides of a reorder.
void check_shape(const Shape& shape, const char* operation);

// "conv2d 3x3 32->64 +relu", the part of a description that does not depend on the backend.
std::string describe(const Conv2dDesc& desc);
std::string describe(const BatchNorm2dDesc& desc);
std::string describe(const MaxPool2dDesc& desc);
std::string describe(const LinearDesc& desc);
std::string describe(const AvgPool2dDesc& desc);
std::string describe(const AdaptiveAvgPool2dDesc& desc);
std::string describe(const ConcatDesc& desc);

// The plan of an operation on plain layouts: shapes, PyTorch's parameters, needs and FLOPs.
OpPlan plain_plan(const Conv2dDesc& desc);
OpPlan plain_plan(const BatchNorm2dDesc& desc);
OpPlan plain_plan(const MaxPool2dDesc& desc);
OpPlan plain_plan(const LinearDesc& desc);
OpPlan plain_plan(const AvgPool2dDesc& desc);
OpPlan plain_plan(const AdaptiveAvgPool2dDesc& desc);
OpPlan plain_plan(const ConcatDesc& desc);

}  // namespace ddpbench::ops
