// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The shared memory of one communicator: what its ranks tell each other.
//
// Each rank writes its own RankSlot and mailboxes, and all read them. Collectives are
// numbered 1, 2, ... in the order of issue, which is the same on all ranks. A rank's two counters
// are positions (collective << kStepBits | step) that only grow:
//   progress  step 1 of collective k: the rank has entered it, its descriptor is posted and its
//             input may be read; further steps are the algorithm's own
//   consumed  step s of collective k: the algorithm's own; position(k + 1, 0): this rank reads no
//             peer's memory any more on behalf of collectives up to k
// A rank that has seen a counter also sees what its owner wrote before storing it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/math.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

inline constexpr std::size_t kCacheLineBytes = 64;
inline constexpr unsigned kStepBits = 24;  // 2^40 collectives of 2^24 steps
constexpr std::uint64_t position(std::uint64_t collective, std::uint64_t step) {
  return collective << kStepBits | step;
}

// Descriptors and mailboxes of the last kHistory collectives stay readable: a rank enters
// collective k + kHistory only when all have consumed k.
inline constexpr std::size_t kHistory = 4;
inline constexpr std::size_t kMailboxBytes = 16 << 10;
// Where a rank's memory is, in words that its peers understand.
struct MemoryLocation {
  static constexpr std::int64_t kAddress = -1;  // `offset` is an address (threads of one process)
  static constexpr std::int64_t kCopied = 0;    // in a copy, at a place of its own
  std::int64_t buffer = kCopied;                // or the number of a registered buffer, from 1
  std::uint64_t offset = 0;                     // in that buffer
};

// Where peers find memory of a rank, which they map when they first need it. Another memory at the
// same place has another version.
struct SharedPlace {
  std::uint64_t version;
  std::array<char, 120> handle;
};
inline constexpr std::size_t kMostRegistered = 64;

struct alignas(kCacheLineBytes) Descriptor {
  OperationKind kind;
  DataType type;
  ReduceOp op;
  std::int32_t root;
  std::uint64_t count;
  MemoryLocation memory;
};

enum class Presence : std::uint32_t { absent, attached, left };

struct RankSlot {
  alignas(kCacheLineBytes) std::atomic<std::uint64_t> progress;
  alignas(kCacheLineBytes) std::atomic<std::uint64_t> consumed;
  // Sleeping: a rank says which rank it waits for, sleeps on its bell, and is woken by that rank.
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> bell;
  std::atomic<std::int32_t> waiting_for;  // kNobody, kAnybody, or rank + 1
  alignas(kCacheLineBytes) std::atomic<Presence> presence;
  std::int32_t pid;
  std::atomic<double> sends_until_s;  // over an emulated link
  std::array<Descriptor, kHistory> descriptors;
  SharedPlace copy;
  std::array<SharedPlace, kMostRegistered> registered;  // [number - 1]

  static constexpr std::int32_t kNobody = 0;
  static constexpr std::int32_t kAnybody = -1;
};

// Messages from one rank to another, numbered 1, 2, ..., one in flight at a time.
struct Channel {
  alignas(kCacheLineBytes) std::atomic<std::uint64_t> posted;  // by the sender
  Descriptor message;                                          // the one of number `posted`
  SharedPlace copy;
  alignas(kCacheLineBytes) std::atomic<std::uint64_t> taken;  // by the receiver
  std::atomic<std::uint64_t> wanted;                          // that recv was called for
};

struct AbortNotice {
  static constexpr std::uint32_t kNone = 0, kWriting = 1, kReadable = 2;
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> state;
  std::int32_t rank;  // rank that aborted
  std::array<char, 1024> reason;
};

struct ControlHeader {
  alignas(kCacheLineBytes) std::int32_t size;
  alignas(kCacheLineBytes) std::atomic<std::int32_t> sleepers;  // ranks with waiting_for != kNobody
  AbortNotice abort;
};

// Maps the memory and finds its parts. Thread-safe as far as the parts are.
class ControlBlock {
 public:
  // For `size` ranks that are threads of this process (`scope` process), or for processes.
  static std::shared_ptr<ControlBlock> create(const std::string& name, int size, FutexScope scope);
  static std::shared_ptr<ControlBlock> open(const std::string& handle, int size);

  int size() const noexcept { return size_; }
  FutexScope scope() const noexcept { return scope_; }
  // Token for open(). REQUIRES: made by create().
  std::string handle() const { return memory_.handle(); }

  ControlHeader& header() const noexcept { return *reinterpret_cast<ControlHeader*>(base()); }
  RankSlot& slot(int rank) const noexcept;
  Channel& channel(int from, int to) const noexcept;
  std::byte* mailbox(int rank, std::uint64_t collective) const noexcept;

 private:
  ControlBlock(SharedMemory memory, int size, FutexScope scope);
  std::byte* base() const noexcept { return memory_.view().data; }

  SharedMemory memory_;
  int size_;
  FutexScope scope_;
};

// The memory that peers may read directly: among processes registered buffers and copies, each
// mapped once by every rank that reads it; among threads of one process all of it. Not thread-safe:
// only the thread that executes collectives uses it.
class PeerMemory {
 public:
  // `own`: this rank's slot.
  PeerMemory(int rank, FutexScope scope, RankSlot& own) : rank_(rank), scope_(scope), own_(own) {}

  // How this rank's memory is announced to its peers; kCopied when no peer can map it.
  MemoryLocation locate(const Elements& elements) const;
  // The same, and copies it to memory at `place` where no peer can map it. REQUIRES: no peer reads
  // what was there before.
  MemoryLocation expose(const Elements& elements, SharedPlace& place);
  // The address here of `bytes` that `peer` announced, whose slot is `theirs` and whose copy is at
  // `place`. Throws CommError when they do not lie in a registered buffer or the copy, and for the
  // address of another process. Among threads of one process any address is believed.
  std::byte* resolve(int peer, const MemoryLocation& memory, std::size_t bytes,
                     const RankSlot& theirs, const SharedPlace& place);

  // Offers a buffer to the peers, by its handle.
  void add(BufferView own, const std::string& handle);
  // REQUIRES: `own` is registered.
  void remove(BufferView own);

 private:
  void offer(SharedPlace& place, const std::string& handle);

  const int rank_;
  const FutexScope scope_;
  RankSlot& own_;
  std::map<std::int64_t, BufferView> registered_;  // by number
  struct Mapping {
    std::uint64_t version = 0;
    SharedMemory memory;
  };
  std::map<const SharedPlace*, Mapping> mapped_;  // of peers, and this rank's own copies
};

// A mark that is equal for processes that can reach each other's memory through /proc/<pid>/fd: one
// boot of one host, one PID and user namespace, one user. The text before the first space
// identifies the host.
std::string host_mark();

}  // namespace ddpbench::comm
