// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/operation.h"

#include <fmt/format.h>

#include <tuple>

#include "base/error.h"

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

Operation Operation::told(OperationKind kind, ReduceOp op, int root, std::size_t count,
                          DataType type) {
  const Elements part{nullptr, count, type};
  return {kind, op, root, part, part};
}

void check_same_call(int rank, int size, const Operation& mine, int peer, const Operation& theirs) {
  const auto agreed = [](const Operation& o) {
    return std::tuple(o.kind, o.op, o.root, o.part().count, o.part().type);
  };
  if (agreed(mine) == agreed(theirs)) return;
  const auto words = [](const Operation& o) {
    return fmt::format("{} ({}, root {}) of {} {}", to_string(o.kind), to_string(o.op), o.root,
                       o.part().count, to_string(o.part().type));
  };
  throw CommError(fmt::format("rank {} of {}: ranks disagree: rank {} calls {}, rank {} calls {}",
                              rank, size, rank, words(mine), peer, words(theirs)),
                  to_string(mine.kind));
}

Work call(Communicator& communicator, const Operation& o, const CallOptions& options) {
  switch (o.kind) {
    case OperationKind::all_reduce:
      return communicator.all_reduce(o.in, o.op, options);
    case OperationKind::reduce:
      return communicator.reduce(o.in, o.op, o.root, options);
    case OperationKind::broadcast:
      return communicator.broadcast(o.in, o.root, options);
    case OperationKind::all_gather:
      return communicator.all_gather(o.in, o.out, options);
    case OperationKind::reduce_scatter:
      return communicator.reduce_scatter(o.in, o.out, o.op, options);
    case OperationKind::scatter:
      return communicator.scatter(o.in, o.out, o.root, options);
    case OperationKind::gather:
      return communicator.gather(o.in, o.out, o.root, options);
    case OperationKind::send:
      return communicator.send(o.in, o.root, options);
    case OperationKind::recv:
      return communicator.recv(o.out, o.root, options);
    case OperationKind::barrier:
      return communicator.barrier(options);
  }
  throw InternalError("an unknown operation");
}

std::string describe(const Operation& operation) {
  if (operation.kind == OperationKind::barrier) return "barrier";
  const std::string_view preposition = operation.kind == OperationKind::send   ? " to rank "
                                       : operation.kind == OperationKind::recv ? " from rank "
                                                                               : "";
  const std::string bucket =
      operation.bucket < 0 ? "" : fmt::format(" (bucket {})", operation.bucket);
  return fmt::format("{} of {} bytes{}{}{}", to_string(operation.kind), operation.part().bytes(),
                     preposition, preposition.empty() ? "" : std::to_string(operation.root),
                     bucket);
}

std::string_view operation_name(const Operation* operation) {
  return operation ? to_string(operation->kind) : std::string_view();
}

}  // namespace ddpbench::comm
