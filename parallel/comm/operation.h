// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One call of a Communicator as plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

// CallWatch: what a program learns of its rank's calls while they run, and how it disturbs them in
// tests and demonstrations. The threads that execute calls call begun(), done() and hold_up_s().
// There may be two at once, where a communicator has two queues.
class CallWatch {
 public:
  virtual ~CallWatch() = default;

  // This rank begins the call, or has completed it. Messages may be completed in another order.
  // Both must be cheap.
  virtual void begun(const Operation& operation) = 0;
  virtual void done(const Operation& operation) = 0;

  // Asked before each call: for how many seconds this rank stands still before it begins it.
  // Infinite: until the communicator fails.
  virtual double hold_up_s() { return 0; }
};

// The common part of all backends' Communicators: it checks a call's arguments and turns the call
// into an Operation. For backends only.
class OperationCommunicator : public Communicator {
 public:
  OperationCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

  Work all_reduce(Elements data, ReduceOp op, CallOptions options) override;
  Work reduce(Elements data, ReduceOp op, int root, CallOptions options) override;
  Work broadcast(Elements data, int root, CallOptions options) override;
  Work all_gather(Elements in, Elements out, CallOptions options) override;
  Work reduce_scatter(Elements in, Elements out, ReduceOp op, CallOptions options) override;
  Work scatter(Elements in, Elements out, int root, CallOptions options) override;
  Work gather(Elements in, Elements out, int root, CallOptions options) override;
  Work send(Elements data, int peer, CallOptions options) override;
  Work recv(Elements data, int peer, CallOptions options) override;
  Work barrier(CallOptions options) override;

 protected:
  virtual Work issue(const Operation& operation, const CallOptions& options) = 0;

 private:
  void check_rank(int rank, const char* what) const;
  void check_parts(const Elements& whole, const Elements& part, const char* what) const;

  const int rank_;
  const int size_;
};

// How ranks split a communicator (Communicator::split): each learns which ranks have its colour.
// What connects the ranks of a part is each backend's own.

// A blocking all-gather of short texts over the communicator that is split, [rank].
using TextExchange = std::function<std::vector<std::string>(const std::string&)>;

struct SplitPart {
  std::vector<int> members;  // ranks of the old communicator, ordered by (key, rank)
  int rank = 0;              // of this process in the new communicator

  int size() const noexcept { return static_cast<int>(members.size()); }
  bool leads() const noexcept { return size() > 0 && rank == 0; }
};

// Collective. This rank's part of the split; empty for a negative colour.
SplitPart choose_part(int rank, int color, int key, const TextExchange& exchange);

}  // namespace ddpbench::comm
