// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicator: collectives and point-to-point messages between ranks, and Work, the handle of one
// that was issued. Words as in MPI and NCCL; the ring sends to rank + 1.
//
// Rules. All ranks of a communicator issue collectives in one order, with equal counts, types and
// operations (a mismatch is a CommError where it is detected). A buffer belongs to the call until
// its Work is done on this rank: do not write it, and read only results. One thread issues calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench {
class Stream;
}

namespace ddpbench::comm {

enum class ReduceOp : std::uint8_t { sum, average, maximum };

// Deadline for blocking waits; CommTimeout after it. Zero or negative: already passed.
using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_after(double seconds);

// Elements in device memory.
struct Elements {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::fp32;
  std::size_t bytes() const { return count * size_of(type); }
  BufferView view() const { return {static_cast<std::byte*>(data), bytes()}; }
};

// When a call's work starts.
enum class Start : std::uint8_t {
  now,       // asynchronously, on the communication stream (a thread on CPU devices)
  deferred,  // when somebody waits for it: synchronize() or wait() then run it on the calling
             // thread, which spares the hand-over to the communication thread
};

struct CallOptions {
  Stream* after = nullptr;  // the work starts after what is queued there now; null: at once
  Start start = Start::now;
};

// Times of one finished Work on this rank, in the communicator's clock (CPU: the device's clock).
struct WorkTimes {
  double start_s = 0;    // this rank entered the operation
  double arrived_s = 0;  // all peers it needs had entered it
  double end_s = 0;      // done on this rank
};

class WorkState;  // backend's own; pooled, so that a step allocates nothing

// Handle of an issued operation. Copyable; an empty Work counts as done.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state);
  ~Work();
  Work(const Work&);
  Work& operator=(const Work&);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;

  // Later work of `stream` starts after this. On an inline CPU stream that blocks the caller, with
  // the communicator's default deadline. Throws CommError.
  void wait(Stream& stream) const;
  // Blocks until done or `deadline`; may run the operation on the calling thread. Throws CommError
  // (CommTimeout) with rank, world size, operation, bytes and the peer waited for.
  void synchronize(Deadline deadline) const;
  void synchronize() const;  // with the communicator's default deadline
  // True when done. Starts a deferred operation. Throws CommError when it failed.
  bool test() const;
  // REQUIRES: done.
  WorkTimes times() const;

 private:
  friend std::size_t wait_any(std::span<const Work> works, Deadline deadline);
  std::shared_ptr<WorkState> state_;
};

// Index of a work that is done; blocks until one is. Throws CommError, CommTimeout.
std::size_t wait_any(std::span<const Work> works, Deadline deadline);

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string backend() const = 0;  // "ring", "nccl", ...
  // Seconds that waits without a deadline of their own may last.
  virtual double timeout_s() const noexcept = 0;

  // In place. average = sum / size(), rounded once at the end.
  virtual Work all_reduce(Elements data, ReduceOp op, CallOptions options = {}) = 0;
  // The result is in root's data; the others' data is unspecified afterwards.
  virtual Work reduce(Elements data, ReduceOp op, int root, CallOptions options = {}) = 0;
  virtual Work broadcast(Elements data, int root, CallOptions options = {}) = 0;
  // out.count = size() * in.count; rank r's part lands at r * in.count. `in` may be its own part of
  // `out`.
  virtual Work all_gather(Elements in, Elements out, CallOptions options = {}) = 0;
  // in.count = size() * out.count; rank r gets the reduced part r. `out` may be that part of `in`;
  // `in` is unspecified afterwards.
  virtual Work reduce_scatter(Elements in, Elements out, ReduceOp op, CallOptions options = {}) = 0;
  // Root's in.count = size() * out.count; `in` is ignored elsewhere.
  virtual Work scatter(Elements in, Elements out, int root, CallOptions options = {}) = 0;
  // Root's out.count = size() * in.count; `out` is ignored elsewhere.
  virtual Work gather(Elements in, Elements out, int root, CallOptions options = {}) = 0;
  // Messages between two ranks match in the order of issue. A send is done when the receiver has
  // taken the data. Counts must agree.
  virtual Work send(Elements data, int peer, CallOptions options = {}) = 0;
  virtual Work recv(Elements data, int peer, CallOptions options = {}) = 0;
  virtual Work barrier(CallOptions options = {}) = 0;

  // Calls between the two may be issued together and progress concurrently (ncclGroupStart/End).
  virtual void group_start() = 0;
  virtual void group_end() = 0;

  // Collective. Ranks with equal colour form a new communicator, ordered by (key, rank); a negative
  // colour gets null.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // Collective. Makes `buffer` (Sharing::mappable, of any size on each rank) directly readable by
  // all ranks: operations on memory inside it move data without staging copies. It must outlive the
  // communicator or be deregistered. Unregistered memory works too, through staging.
  virtual void register_buffer(const Buffer& buffer) = 0;
  virtual void deregister_buffer(const Buffer& buffer) = 0;

  // Makes all current and later operations of all ranks fail with CommError(`reason`) soon.
  // Callable from any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Throws CommError when it was aborted, a peer has died or it has failed, as far as this rank
  // knows; waits for nothing. One thread at a time, and none may issue meanwhile.
  // For what issues no calls: waits elsewhere, replays.
  virtual void check() = 0;
};

}  // namespace ddpbench::comm
