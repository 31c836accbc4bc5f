// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/operation_communicator.h"

#include "base/error.h"

namespace ddpbench::comm {

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

}  // namespace ddpbench::comm
