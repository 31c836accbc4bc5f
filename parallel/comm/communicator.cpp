// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/communicator.h"

#include <fmt/format.h>

#include <map>
#include <regex>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::comm {

Link parse_link(const std::string& text, const std::string& option) {
  static const std::regex kForm(R"(([0-9.e+-]+)([kMG])(bit|B),([0-9.e+-]+)(u|m|)s)");
  const std::map<std::string, double> units = {{"k", 1e3},  {"M", 1e6},     {"G", 1e9},  {"B", 1},
                                               {"u", 1e-6}, {"bit", 0.125}, {"m", 1e-3}, {"", 1}};
  if (text.empty()) return {};
  std::smatch parts;
  if (std::regex_match(text, parts, kForm)) {
    const double rate = number_in<double>(parts[1].str()).value_or(0);
    const double latency = number_in<double>(parts[4].str()).value_or(-1);
    const double unit = units.at(parts[2]) * units.at(parts[3]);
    if (rate > 0 && latency >= 0) return {rate * unit, latency * units.at(parts[5])};
  }
  throw ConfigError(
      fmt::format("{}={}: no link; write it as 1Gbit,50us or 100MB,1ms", option, text));
}

std::string_view to_string(OperationKind kind) {
  constexpr std::array<std::string_view, 10> kWords = {
      "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
      "scatter",    "gather", "barrier",   "send",       "recv"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kWords.size() ? kWords[index] : "unknown operation";
}

std::string_view to_string(ReduceOp op) {
  return op == ReduceOp::sum ? "sum" : op == ReduceOp::average ? "average" : "max";
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
  const std::string bucket =
      operation.bucket < 0 ? "" : fmt::format(" (bucket {})", operation.bucket);
  return fmt::format("{} of {} bytes{}{}{}", to_string(operation.kind), operation.part().bytes(),
                     preposition, preposition.empty() ? "" : std::to_string(operation.root),
                     bucket);
}

std::string call_prefix(int rank, int size, const Operation* operation) {
  return fmt::format("rank {} of {}: {}", rank, size, operation ? describe(*operation) + ": " : "");
}

std::string_view operation_name(const Operation* operation) {
  return operation ? to_string(operation->kind) : std::string_view();
}

Work Communicator::all_reduce(Elements data, ReduceOp op, CallOptions options) {
  return issue({OperationKind::all_reduce, op, 0, data, data, options.bucket}, options);
}

Work Communicator::reduce(Elements data, ReduceOp op, int root, CallOptions options) {
  check_rank(root, "root of reduce");
  return issue({OperationKind::reduce, op, root, data, data, options.bucket}, options);
}

Work Communicator::broadcast(Elements data, int root, CallOptions options) {
  check_rank(root, "root of broadcast");
  return issue({OperationKind::broadcast, ReduceOp::sum, root, data, data, options.bucket},
               options);
}

Work Communicator::all_gather(Elements in, Elements out, CallOptions options) {
  check_parts(out, in, "all_gather");
  return issue({OperationKind::all_gather, ReduceOp::sum, 0, in, out, options.bucket}, options);
}

Work Communicator::reduce_scatter(Elements in, Elements out, ReduceOp op, CallOptions options) {
  check_parts(in, out, "reduce_scatter");
  return issue({OperationKind::reduce_scatter, op, 0, in, out, options.bucket}, options);
}

Work Communicator::scatter(Elements in, Elements out, int root, CallOptions options) {
  check_rank(root, "root of scatter");
  if (rank_ == root) check_parts(in, out, "scatter");
  return issue({OperationKind::scatter, ReduceOp::sum, root, in, out, options.bucket}, options);
}

Work Communicator::gather(Elements in, Elements out, int root, CallOptions options) {
  check_rank(root, "root of gather");
  if (rank_ == root) check_parts(out, in, "gather");
  return issue({OperationKind::gather, ReduceOp::sum, root, in, out, options.bucket}, options);
}

Work Communicator::send(Elements data, int peer, CallOptions options) {
  check_rank(peer, "receiver");
  return issue({OperationKind::send, ReduceOp::sum, peer, data, {}, options.bucket}, options);
}

Work Communicator::recv(Elements data, int peer, CallOptions options) {
  check_rank(peer, "sender");
  return issue({OperationKind::recv, ReduceOp::sum, peer, {}, data, options.bucket}, options);
}

Work Communicator::barrier(CallOptions options) {
  return issue({OperationKind::barrier, ReduceOp::sum, 0, {}, {}, options.bucket}, options);
}

void Communicator::wait_until(PredicateRef) {
  throw InternalError(fmt::format("{} cannot wait for any message", backend()));
}

void Communicator::check_rank(int rank, const char* what) const {
  ensure(rank >= 0 && rank < size_, "{} is rank {} of {}", what, rank, size_);
}

void Communicator::check_parts(const Elements& whole, const Elements& part,
                               const char* what) const {
  ensure(whole.type == part.type && whole.count == static_cast<std::size_t>(size_) * part.count,
         "{} over {} ranks: {} {} are no {} parts of {} {}", what, size_, whole.count,
         to_string(whole.type), size_, part.count, to_string(part.type));
}

}  // namespace ddpbench::comm
