// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of planning: tensors ("values"), the calls of operations that touch them, and their
// order.
//
// A value is written once, so only the order of the data restricts which values may share memory.
// Calls of the micro-batched part run once for each micro-batch, all others once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/backend.h"
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
  // The distance from one micro-batch to the next; 0: each overwrites the one before.
  std::size_t stride_bytes = 0;
};

// `recompute` (Op::recompute) is a call of the backward pass with the fields of one of forward.
enum class Direction : std::uint8_t { forward, recompute, backward };

// One call of an operation, not yet bound to memory.
struct PlannedCall {
  std::string name;
  ops::Op* op = nullptr;
  Direction direction = Direction::forward;
  bool micro = false;            // in the micro-batched part
  std::vector<int> inputs = {};  // values; in backward kNoValue where the op does not need them
  int output = kNoValue;
  int saved = kNoValue;
  int grad_output = kNoValue;                // backward only, as the next two
  int more_grad_output = kNoValue;           // kNoValue: grad_output is all
  std::vector<int> grad_inputs = {};         // kNoValue: not wanted
  std::vector<std::size_t> parameters = {};  // indices in the ParameterPlan, in the op's order
  std::vector<std::size_t> state = {};       // the same of its state; forward only
  bool is_trained = false;                   // whether its parameters are
  // Each input's gradient is the output's gradient (a sum), so there is nothing to compute.
  bool passes_gradient = false;
};

struct WeightCast {
  ops::Op* op = nullptr;
  std::size_t offset_bytes = 0;  // in the memory of weights
};

struct Plan {
  std::int64_t batch = 0;
  std::int64_t micro_batch = 0;  // 0: no micro-batches
  std::vector<std::unique_ptr<ops::Op>> operations;
  std::vector<Value> values;
  std::vector<PlannedCall> forward;   // the micro-batched part's first
  std::vector<PlannedCall> backward;  // the micro-batched part's last
  int input = kNoValue;
  std::vector<int> logits;            // of each output, the main one's first
  std::vector<int> output_gradients;  // likewise; empty: forward only
  int input_gradient = kNoValue;      // where backward computes it
  // The weights' copies: one of all, or with units (ParameterPlan) one of each and then one of what
  // is frozen. Empty: nothing reads any.
  std::vector<WeightCast> casts;
  std::size_t arena_bytes = 0;      // activations and their gradients
  std::size_t workspace_bytes = 0;  // one that all operations share

  bool trains() const { return !output_gradients.empty(); }
  // How often a call runs in a pass.
  std::size_t repeats(bool micro) const {
    return micro ? static_cast<std::size_t>(batch / micro_batch) : 1;
  }
};

// The layout in which a call sees `value`, within the micro-batched part (`micro`) or outside of
// it. Only plain values are seen from both: their micro-batches are contiguous parts of the batch.
ops::TensorLayout layout_at(const Plan& plan, int value, bool micro);

int add_value(Plan& plan, ops::TensorLayout layout, bool micro);

// Derives plan.backward and plan.output_gradients from plan.forward. The gradients of a tensor that
// several calls read are summed in the order in which they are computed; the producer adds the last
// one itself if it can (OpPlan::adds_grad_outputs). Outputs that their operation can give again
// (OpPlan::recomputes_output) are not kept: backward makes them anew where it first needs them.
// `input_gradient`: also that of the network's input, which no micro-batched call reads.
void plan_backward(Plan& plan, ops::OpBackend& backend, bool input_gradient = false);

// ---- memory: values that never live at the same time share it, in one arena ----

// A tensor occupies its bytes from call `first` to call `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one for each lifetime, multiples of kTensorAlignment
  std::size_t bytes = 0;             // of the arena
};

inline constexpr std::size_t kTensorAlignment = 64;

// Greedy by size: the largest first, each at the lowest offset where it meets no other that lives
// at the same time. O(n^2) for n tensors. (Pisarchyk and Lee, "Efficient memory management
// for deep neural net inference", 2020: within a few per cent of the lower bound for networks.)
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

// Sets placed, offset_bytes and stride_bytes of every value, and the plan's arena_bytes.
//
// A value that only one pass over the micro-batched part touches is scratch of one micro-batch, any
// other is kept for the whole batch.
void place_values(Plan& plan);

}  // namespace ddpbench::nn
