// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See operation.h.
#include "parallel/comm/operation.h"

#include <fmt/format.h>

namespace ddpbench::comm {

std::string_view to_string(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_reduce:
      return "all_reduce";
    case OperationKind::reduce:
      return "reduce";
    case OperationKind::broadcast:
      return "broadcast";
    case OperationKind::all_gather:
      return "all_gather";
    case OperationKind::reduce_scatter:
      return "reduce_scatter";
    case OperationKind::scatter:
      return "scatter";
    case OperationKind::gather:
      return "gather";
    case OperationKind::barrier:
      return "barrier";
    case OperationKind::send:
      return "send";
    case OperationKind::recv:
      return "recv";
  }
  return "unknown operation";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::maximum:
      return "maximum";
  }
  return "unknown";
}

Elements Operation::part() const {
  switch (kind) {
    case OperationKind::reduce_scatter:
    case OperationKind::scatter:
    case OperationKind::recv:
      return out;
    default:
      return in;
  }
}

std::string describe(const Operation& operation) {
  if (operation.kind == OperationKind::barrier) return "barrier";
  const std::string_view preposition = operation.kind == OperationKind::send   ? " to rank "
                                       : operation.kind == OperationKind::recv ? " from rank "
                                                                               : "";
  return fmt::format("{} of {} bytes{}{}", to_string(operation.kind), operation.part().bytes(),
                     preposition, preposition.empty() ? "" : std::to_string(operation.root));
}

std::string_view operation_name(const Operation* operation) {
  return operation ? to_string(operation->kind) : std::string_view();
}

}  // namespace ddpbench::comm
