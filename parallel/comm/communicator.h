// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicator: collectives and point-to-point messages between ranks, and Work, the handle of an
// issued one. Words as in MPI and NCCL.
//
// Rules. All ranks of a communicator issue collectives in one order, with equal counts, types and
// operations (a mismatch is a CommError where it is detected). A buffer belongs to the call until
// its Work is done on this rank: do not write it, and read only results. One thread issues calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/data_type.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench {
class Stream;
}

namespace ddpbench::comm {

// How an all-reduce moves its data between n ranks.
enum class AllReduceAlgorithm : std::uint8_t {
  automatic,  // the backend chooses by the number of ranks and bytes
  ring,       // 2 (n - 1) steps; a rank reads from one neighbour only
  direct,     // 2 steps (1 for few bytes); a rank reads from all others at once
};

// The words of options and reports, indexed by the enumerators' numbers.
inline constexpr std::array<std::string_view, 3> kAllReduceAlgorithms = {"auto", "ring", "direct"};

constexpr std::string_view to_string(AllReduceAlgorithm algorithm) {
  return kAllReduceAlgorithms[static_cast<std::size_t>(algorithm)];
}
// REQUIRES: one of kAllReduceAlgorithms; any other word gives `automatic`.
constexpr AllReduceAlgorithm all_reduce_algorithm(std::string_view name) {
  for (std::size_t i = 0; i < kAllReduceAlgorithms.size(); ++i) {
    if (kAllReduceAlgorithms[i] == name) return static_cast<AllReduceAlgorithm>(i);
  }
  return AllReduceAlgorithm::automatic;
}

// The network link that each rank is to have, by --emulate-link.
struct Link {
  double bytes_per_s = 0;  // in each direction; 0: none
  double latency_s = 0;    // one way
};
// Reads "1Gbit,50us": kbit, Mbit, Gbit, kB, MB, GB a second, and us, ms, s. Empty gives no link.
// Throws ConfigError, which names the option.
Link parse_link(const std::string& text, const std::string& option = "--emulate-link");

enum class ReduceOp : std::uint8_t { sum, average, maximum };

// Elements in device memory.
struct Elements {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::fp32;
  std::size_t bytes() const { return count * size_of(type); }
  BufferView view() const { return {static_cast<std::byte*>(data), bytes()}; }
  // Where the part of a rank is in these, each of as many elements as `part`.
  std::byte* place_of(int rank, const Elements& part) const {
    return static_cast<std::byte*>(data) + static_cast<std::size_t>(rank) * part.bytes();
  }
};

// When a call's work starts.
enum class Start : std::uint8_t {
  now,       // asynchronously, on the communication stream (a thread on CPU devices)
  deferred,  // when a caller waits for it, on the calling thread, which spares a hand-over
};

struct CallOptions {
  Stream* after = nullptr;  // the work starts after what is queued there now; null: at once
  Start start = Start::now;
  int bucket = -1;  // the gradient bucket that the call moves, for messages and reports; -1: none
};

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
std::string_view to_string(ReduceOp op);  // "sum", "average", "max": as options say it

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
};

// A message is what one rank sends one other in one step of an algorithm, however a backend cuts
// it. One without bytes is not counted.
struct Traffic {
  std::uint64_t messages = 0, bytes = 0;

  void add_message(std::uint64_t message_bytes) {
    messages += message_bytes > 0 ? 1 : 0;
    bytes += message_bytes;
  }
  bool operator==(const Traffic&) const = default;
};

// What a rank has taken from another one, and what it has sent it by send().
struct PeerTraffic {
  Traffic taken, sent;
};

// Times of one finished Work on this rank, in the communicator's clock (CPU: the device's clock).
struct WorkTimes {
  double start_s = 0;        // this rank entered the operation
  double arrived_s = 0;      // all peers it needs had entered it
  double end_s = 0;          // done on this rank
  bool arrived_told = true;  // false: the backend cannot tell; arrived_s is start_s
};

// For backends only. The contracts are those of Work. States are pooled, so that a step allocates
// nothing.
class WorkState {
 public:
  virtual ~WorkState() = default;
  virtual void wait(Stream& stream) = 0;
  virtual void synchronize(std::optional<Deadline> deadline) = 0;
  virtual WorkTimes times() const = 0;
  virtual bool is_done() = 0;
};

// Copyable; an empty Work counts as done.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  // Later work of `stream` starts after this work. On an inline CPU stream that blocks the caller,
  // with the communicator's default deadline. Throws CommError.
  void wait(Stream& stream) const {
    if (state_) state_->wait(stream);
  }
  // Blocks until done or `deadline`, by default the communicator's; may run the operation on the
  // calling thread. Throws CommError (CommTimeout) that names operation and awaited peer.
  void synchronize(std::optional<Deadline> deadline = {}) const {
    if (state_) state_->synchronize(deadline);
  }
  // Whether it is done or has failed, which waiting tells. It moves only while somebody waits.
  bool is_done() const { return !state_ || state_->is_done(); }
  // REQUIRES: done.
  WorkTimes times() const { return state_ ? state_->times() : WorkTimes{}; }

 private:
  std::shared_ptr<WorkState> state_;
};

class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  virtual std::string backend() const = 0;  // "shm", "nccl", ...
  // The deadline, in seconds, of waits that have none of their own.
  virtual double timeout_s() const noexcept = 0;
  // The algorithms that all-reduces of registered memory have used on this rank so far. Empty where
  // the backend does not know: NCCL does not say.
  virtual std::vector<AllReduceAlgorithm> all_reduces_run() const { return {}; }

  // Since the last call of this, [rank]. Empty where the backend does not count. REQUIRES: none of
  // this rank's calls is in flight.
  virtual std::vector<PeerTraffic> take_traffic() { return {}; }

  // In place. average = sum / size(); how often it is rounded is the backend's.
  Work all_reduce(Elements data, ReduceOp op, CallOptions options = {});
  // The result is in root's data; the others' data is unspecified afterwards.
  Work reduce(Elements data, ReduceOp op, int root, CallOptions options = {});
  Work broadcast(Elements data, int root, CallOptions options = {});
  // out.count = size() * in.count; rank r's part lands at r * in.count. `in` may be its own part of
  // `out`.
  Work all_gather(Elements in, Elements out, CallOptions options = {});
  // in.count = size() * out.count; rank r gets the reduced part r. `out` may be that part of `in`;
  // `in` is unspecified afterwards.
  Work reduce_scatter(Elements in, Elements out, ReduceOp op, CallOptions options = {});
  // Root's in.count = size() * out.count; `in` is ignored elsewhere.
  Work scatter(Elements in, Elements out, int root, CallOptions options = {});
  // Root's out.count = size() * in.count; `out` is ignored elsewhere.
  Work gather(Elements in, Elements out, int root, CallOptions options = {});
  // Messages between two ranks match in the order of issue. A send is done when the receiver has
  // taken the data, or a library holds it. Counts must agree. Libraries send nothing to the rank
  // itself.
  Work send(Elements data, int peer, CallOptions options = {});
  Work recv(Elements data, int peer, CallOptions options = {});
  Work barrier(CallOptions options = {});

  // Makes the call. For backends, whose work it is: the functions above check their arguments.
  virtual Work issue(const Operation& operation, const CallOptions& options) = 0;

  // Waits without a deadline, while this rank's messages move, until `done`: so a rank hears of the
  // first of many. REQUIRES: a communicator of CPU devices. Throws CommError.
  virtual void wait_until(PredicateRef done);

  // Calls between the two may be issued together and progress concurrently (ncclGroupStart/End).
  virtual void group_start() = 0;
  virtual void group_end() = 0;

  // Operations on memory inside `buffer` (Sharing::mappable) need no copy of it. It must outlive
  // the communicator or be deregistered. Each rank may register what it likes, between calls.
  virtual void register_buffer(const Buffer& buffer) = 0;
  virtual void deregister_buffer(const Buffer& buffer) = 0;

  // Makes all current and later operations of all ranks soon fail with CommError(`reason`).
  // Callable from any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Throws CommError when this rank knows that the communicator was aborted or has failed, or that
  // a peer has died. It does not wait. No thread may issue calls meanwhile.
  virtual void check() = 0;

 private:
  void check_rank(int rank, const char* what) const;
  void check_parts(const Elements& whole, const Elements& part, const char* what) const;

  const int rank_, size_;
};

// "all_reduce of 1686568 bytes", "all_reduce of 1686568 bytes (bucket 2)"
std::string describe(const Operation& operation);
// "rank 0 of 2: all_reduce of 4 bytes: ", for messages; the operation may be null.
std::string call_prefix(int rank, int size, const Operation* operation);
// "all_reduce", for CommError; empty for null.
std::string_view operation_name(const Operation* operation);

// What a program learns of its rank's calls, and how it disturbs them in tests. The threads that
// execute calls call it; two at once, where a communicator has two queues.
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

}  // namespace ddpbench::comm
