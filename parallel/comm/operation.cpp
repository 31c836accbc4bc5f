// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

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

Work OperationCommunicator::all_reduce(Elements data, ReduceOp op, CallOptions options) {
  return issue({OperationKind::all_reduce, op, 0, data, data, options.bucket}, options);
}

Work OperationCommunicator::reduce(Elements data, ReduceOp op, int root, CallOptions options) {
  check_rank(root, "root of reduce");
  return issue({OperationKind::reduce, op, root, data, data, options.bucket}, options);
}

Work OperationCommunicator::broadcast(Elements data, int root, CallOptions options) {
  check_rank(root, "root of broadcast");
  return issue({OperationKind::broadcast, ReduceOp::sum, root, data, data, options.bucket},
               options);
}

Work OperationCommunicator::all_gather(Elements in, Elements out, CallOptions options) {
  check_parts(out, in, "all_gather");
  return issue({OperationKind::all_gather, ReduceOp::sum, 0, in, out, options.bucket}, options);
}

Work OperationCommunicator::reduce_scatter(Elements in, Elements out, ReduceOp op,
                                           CallOptions options) {
  check_parts(in, out, "reduce_scatter");
  return issue({OperationKind::reduce_scatter, op, 0, in, out, options.bucket}, options);
}

Work OperationCommunicator::scatter(Elements in, Elements out, int root, CallOptions options) {
  check_rank(root, "root of scatter");
  if (rank_ == root) check_parts(in, out, "scatter");
  return issue({OperationKind::scatter, ReduceOp::sum, root, in, out, options.bucket}, options);
}

Work OperationCommunicator::gather(Elements in, Elements out, int root, CallOptions options) {
  check_rank(root, "root of gather");
  if (rank_ == root) check_parts(out, in, "gather");
  return issue({OperationKind::gather, ReduceOp::sum, root, in, out, options.bucket}, options);
}

Work OperationCommunicator::send(Elements data, int peer, CallOptions options) {
  check_rank(peer, "receiver");
  return issue({OperationKind::send, ReduceOp::sum, peer, data, {}, options.bucket}, options);
}

Work OperationCommunicator::recv(Elements data, int peer, CallOptions options) {
  check_rank(peer, "sender");
  return issue({OperationKind::recv, ReduceOp::sum, peer, {}, data, options.bucket}, options);
}

Work OperationCommunicator::barrier(CallOptions options) {
  return issue({OperationKind::barrier, ReduceOp::sum, 0, {}, {}, options.bucket}, options);
}

void OperationCommunicator::check_rank(int rank, const char* what) const {
  ensure(rank >= 0 && rank < size_, "{} is rank {} of {}", what, rank, size_);
}

void OperationCommunicator::check_parts(const Elements& whole, const Elements& part,
                                        const char* what) const {
  ensure(whole.type == part.type && whole.count == static_cast<std::size_t>(size_) * part.count,
         "{} over {} ranks: {} {} are no {} parts of {} {}", what, size_, whole.count,
         to_string(whole.type), size_, part.count, to_string(part.type));
}

SplitPart choose_part(int rank, int color, int key, const TextExchange& exchange) {
  const std::vector<std::string> choices = exchange(fmt::format("{} {}", color, key));
  SplitPart part;
  if (color < 0) return part;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int peer = 0; peer < static_cast<int>(choices.size()); ++peer) {
    const std::string& choice = choices[static_cast<std::size_t>(peer)];
    const std::size_t space = choice.find(' ');
    if (std::stoi(choice.substr(0, space)) != color) continue;
    members.emplace_back(std::stoi(choice.substr(space + 1)), peer);
  }
  std::ranges::sort(members);
  for (const auto& [member_key, peer] : members) {
    if (peer == rank) part.rank = part.size();
    part.members.push_back(peer);
  }
  return part;
}

}  // namespace ddpbench::comm
