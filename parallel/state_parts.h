// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StatePart: a piece of what training goes on from beside weights and running statistics, and the
// rank that has it. Whatever a strategy keeps, in shards, on servers or on each replica, is listed
// as parts, which training_state.h moves between ranks and files; its source has the functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/ops/optimizer.h"
#include "kernels/runtime/buffer.h"

namespace ddpbench {

struct StatePart {
  enum class Kind : std::uint8_t {
    slot,     // a range of a flat buffer: of the optimizer; equal on all ranks that have it
    extra,    // likewise, and zero where a checkpoint has none of this replica
    numbers,  // fp32 of no parameter's shape; as reset where a checkpoint has none of this replica
    state,    // the running statistics of a replica that keeps its own
    scale,    // the ops::LossScale of a replica beside the first that has its own
    counter   // an ops::OptimizerStep
  };
  Kind kind = Kind::slot;
  std::string name = {};      // of the flat buffer: "momentum_buffer"
  int owner = 0;              // the rank that sends it to rank 0
  bool is_on_server = false;  // no worker has it
  int replica = 0;            // of those that have such a buffer each: its index; else 0
  std::size_t offset = 0;     // in the flat buffer
  std::size_t bytes = 0;      // 0: there is none
  int updates_per_step = 1;   // that a counter counts
  BufferView memory = {};     // on the ranks that have it

  // Parts of one flat buffer have equal keys.
  auto key() const { return std::tie(kind, replica, name); }
};

// Lists the slots of an optimizer's state for `count` parameters, of which the range that `where`
// describes begins at element `first`. `state`: null on ranks that do not have it.
void add_slots(std::vector<StatePart>& parts, const StatePart& where,
               const ops::OptimizerOptions& options, std::byte* state, std::size_t count,
               std::size_t first = 0, const std::string& prefix = "");
// Lists its count of updates, if it has one.
void add_counter(std::vector<StatePart>& parts, const StatePart& where,
                 const ops::OptimizerOptions& options, std::byte* state, std::size_t count);

enum class Transfer : std::uint8_t { save, load };

// Without empty ones, in an order in which those of one flat buffer stand together. It is the same
// on all ranks.
std::vector<StatePart> in_order(std::vector<StatePart> parts);

}  // namespace ddpbench
