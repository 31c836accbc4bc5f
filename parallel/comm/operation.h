// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One call of a Communicator as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/comm/communicator.h"

namespace ddpbench::comm {

enum class OperationKind : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  scatter,
  gather,
  barrier,
  send,
  recv
};
std::string_view to_string(OperationKind kind);
std::string_view to_string(ReduceOp op);

struct Operation {
  OperationKind kind = OperationKind::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // root of rooted collectives, peer of send and recv
  Elements in;   // in-place operations use `in` only; recv, scatter and gather write to `out`
  Elements out;
  int bucket = -1;  // as in CallOptions

  bool is_message() const { return kind == OperationKind::send || kind == OperationKind::recv; }
  // The count and type of one rank's part, on which all ranks must agree.
  Elements part() const;
  // What ranks tell each other of a collective, in the form of a call: it has no memory.
  static Operation told(OperationKind kind, ReduceOp op, int root, std::size_t count,
                        DataType type);
};

// Throws CommError where `rank`, of `size`, and `peer` do not call the same collective. The message
// has all on which ranks must agree.
void check_same_call(int rank, int size, const Operation& mine, int peer, const Operation& theirs);

// Makes the call on `communicator`.
Work call(Communicator& communicator, const Operation& operation, const CallOptions& options);

// "all_reduce of 1686568 bytes", "all_reduce of 1686568 bytes (bucket 2)"
std::string describe(const Operation& operation);
// "all_reduce", for CommError; empty for null.
std::string_view operation_name(const Operation* operation);

}  // namespace ddpbench::comm
