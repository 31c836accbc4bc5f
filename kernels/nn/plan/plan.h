// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What planning produces: tensors ("values"), the operations that touch them, and their order.
//
// A value is written once, so no order of steps but the data's own restricts which of them may
// share memory. Steps of the segment run once for each micro-batch, all others once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/op.h"

namespace ddpbench::nn {

inline constexpr int kNoValue = -1;

// An activation, a gradient, or what an operation saves for its backward.
struct Value {
  ops::TensorLayout layout;  // of one micro-batch when `micro`, else of the batch
  bool micro = false;
  // Set by place_values:
  bool placed = false;           // false: the network's input, which the caller owns
  std::size_t offset_bytes = 0;  // in the arena
  std::size_t stride_bytes =
      0;  // from one micro-batch to the next; 0: each overwrites the one before
};

enum class Direction : std::uint8_t { forward, backward };

// One call of an operation.
struct Step {
  std::string name;
  ops::Op* op = nullptr;
  Direction direction = Direction::forward;
  bool micro = false;            // in the segment
  std::vector<int> inputs = {};  // values; in backward kNoValue where the op does not need them
  int output = kNoValue;
  int saved = kNoValue;
  int grad_output = kNoValue;                // backward only, as the next
  std::vector<int> grad_inputs = {};         // kNoValue: not wanted
  std::vector<std::size_t> parameters = {};  // indices in the ParameterPlan, in the op's order
  // The gradient of each input is the gradient of the output (a sum): nothing is to be computed.
  bool passes_gradient = false;
};

struct Plan {
  std::int64_t batch = 0;
  std::int64_t micro_batch = 0;  // 0: no segment
  std::vector<std::unique_ptr<ops::Op>> operations;
  std::vector<Value> values;
  std::vector<Step> forward;   // the segment's steps first
  std::vector<Step> backward;  // the segment's steps last
  int input = kNoValue;
  int logits = kNoValue;
  int output_gradient = kNoValue;   // kNoValue: forward only
  ops::Op* rounding = nullptr;      // of the flat parameters to bf16; null: nothing reads them so
  std::size_t arena_bytes = 0;      // activations and their gradients
  std::size_t workspace_bytes = 0;  // one for all operations

  // Times that a step runs.
  std::size_t calls(bool micro) const {
    return micro ? static_cast<std::size_t>(batch / micro_batch) : 1;
  }
};

// The layout that a step of the segment (`micro`) or another one sees `value` in. Only plain values
// are seen by both: there the samples of a micro-batch are a contiguous part of the batch.
ops::TensorLayout layout_at(const Plan& plan, int value, bool micro);

int add_value(Plan& plan, ops::TensorLayout layout, bool micro);

}  // namespace ddpbench::nn
