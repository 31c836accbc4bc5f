// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicator: collectives and point-to-point messages between ranks. Words as in MPI and NCCL.
//
// Rules. All ranks of a communicator issue collectives in one order, with equal counts, types and
// operations (a mismatch is a CommError where it is detected). A buffer belongs to the call until
// its Work is done on this rank: do not write it, and read only results. One thread issues calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/data_type.h"
#include "parallel/comm/link_traffic.h"
#include "parallel/comm/work.h"

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

enum class ReduceOp : std::uint8_t { sum, average, maximum };

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
  deferred,  // when a caller waits for it: synchronize() or wait() then runs it on the calling
             // thread, which spares the hand-over to the communication thread
};

struct CallOptions {
  Stream* after = nullptr;  // the work starts after what is queued there now; null: at once
  Start start = Start::now;
  int bucket = -1;  // the gradient bucket that the call moves, for messages and reports; -1: none
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string backend() const = 0;  // "shm", "nccl", ...
  // The deadline, in seconds, of waits that have none of their own.
  virtual double timeout_s() const noexcept = 0;
  // The algorithms that all-reduces of registered memory have used on this rank so far. Empty where
  // the backend does not know: NCCL does not say.
  virtual std::vector<AllReduceAlgorithm> all_reduces_run() const { return {}; }

  // What this rank has taken from each rank so far, [size]. Empty where the backend does not count.
  // REQUIRES: none of this rank's calls is in flight.
  virtual std::vector<Traffic> taken() { return {}; }

  // In place. average = sum / size(); how often it is rounded is the backend's.
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
  // taken the data, or a library holds it. Counts must agree.
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

  // Makes all current and later operations of all ranks soon fail with CommError(`reason`).
  // Callable from any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Throws CommError when this rank knows that the communicator was aborted or has failed, or that
  // a peer has died. It does not wait. It is for code that issues no calls: waits elsewhere,
  // replays. One thread at a time may call it, and none may issue calls meanwhile.
  virtual void check() = 0;
};

}  // namespace ddpbench::comm
