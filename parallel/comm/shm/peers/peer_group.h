// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's membership of a communicator: publishing progress, waiting for that of peers, noticing
// that a peer is gone, and aborting.
//
// A rank that waits spins briefly, because a peer on another core is often only a few microseconds
// away. Then it yields, because when oversubscribed the peer may need this core. Then it sleeps on
// its bell. Waking costs a system call and 5 to 80 us, so a peer rings only for a rank that sleeps
// and waits for it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

// How long to spin and to yield before sleeping.
struct WaitPolicy {
  int spins = 0;
  double yield_s = 0;
};

// What a wait is for. Messages name it.
struct WaitReason {
  const Operation* operation = nullptr;
  std::uint64_t collective = 0;  // 0: not a collective
  Deadline deadline;
  double wake_s = std::numeric_limits<double>::infinity();  // steady_s(): when ready() may be true
};

// Work that progresses while a rank waits for something else.
class Background {
 public:
  virtual ~Background() = default;
  virtual bool active() const = 0;
  virtual bool advance() = 0;  // true when it did something
  virtual bool needs(int peer) const = 0;
  virtual double wake_s() const = 0;  // as in WaitReason, for advance()
};

class PeerGroup {
 public:
  static constexpr int kAnybody = -1;

  PeerGroup(std::shared_ptr<ControlBlock> block, int rank);
  ~PeerGroup() { leave(); }
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return block_->size(); }
  ControlBlock& block() const noexcept { return *block_; }
  RankSlot& own() const noexcept { return block_->slot(rank_); }

  // Waits until all ranks are attached. CommTimeout names the first that is missing.
  void await_attached(double timeout_s);

  // Waits until ready(), which may change by what `peer` publishes, by background work (kAnybody),
  // or with wake_own_waiter(). `policy` is the calling thread's. Throws CommTimeout. Throws
  // CommError when the peer is gone, the communicator was aborted, or a peer calls another
  // operation. One thread at a time.
  template <typename Ready>
  void wait(int peer, const WaitReason& reason, const WaitPolicy& policy, Ready&& ready) {
    for (int i = 0; i <= policy.spins; ++i) {
      if (ready()) return;
      __builtin_ia32_pause();
    }
    wait_slowly(peer, reason, policy.yield_s, ready);
  }

  // Stores a counter that peers wait for, and wakes those that sleep for it.
  void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) noexcept {
    // Sequentially consistent on both sides: either this rank sees the sleeper below, or the
    // sleeper sees the value, because it announces itself before it looks again.
    counter.store(value, std::memory_order_seq_cst);
    if (block_->header().sleepers.load(std::memory_order_seq_cst) != 0) wake_waiters();
  }
  // Makes the waiting thread of this rank look again.
  void wake_own_waiter() noexcept { wake_if_asleep(own()); }

  // Advanced while waiting. May be null; must outlive its use here.
  void set_background(Background* background) noexcept { background_ = background; }

  // The first reason wins. Callable from any thread.
  void abort(const std::string& reason) noexcept;
  bool aborted() const noexcept {
    return block_->header().abort.state.load(std::memory_order_seq_cst) != AbortNotice::kNone;
  }
  // REQUIRES: aborted().
  [[noreturn]] void throw_aborted(const Operation* operation) const;
  // Throws CommError when the communicator was aborted or a peer has died. A peer that has left may
  // be done.
  void check_all();
  // Makes the waits of this rank fail: its communicator is being destroyed.
  void stop() noexcept;
  // Tells the peers that this rank does nothing any more.
  void leave() noexcept;

  // Throws CommError when two ranks call different operations.
  void ensure_same_operation(const Descriptor& mine, const Descriptor& theirs, int peer) const;

  std::string prefix(const Operation* operation) const {
    return call_prefix(rank_, size(), operation);
  }

 private:
  class Announced;

  void wait_slowly(int peer, const WaitReason& reason, double yield_s, PredicateRef ready);
  void sleep(int peer, Deadline until, PredicateRef ready);
  bool has_left(int peer) const noexcept {
    return block_->slot(peer).presence.load(std::memory_order_acquire) == Presence::left;
  }
  bool is_dead(int peer) const {
    return !processes_.empty() && has_ended(processes_[static_cast<std::size_t>(peer)]);
  }
  [[noreturn]] void throw_gone(int peer, const Operation* operation) const;
  void check(int peer, const WaitReason& reason, PredicateRef ready);
  void check_peer_lives(int peer, const WaitReason& reason, PredicateRef ready);
  void wake_waiters() noexcept;
  void wake_if_asleep(RankSlot& slot) noexcept;
  bool wake(RankSlot& slot, std::int32_t waiting_for) noexcept;
  std::string late_peers(int peer, const WaitReason& reason) const;

  const std::shared_ptr<ControlBlock> block_;
  const int rank_;
  std::vector<FileDescriptor> processes_;  // [rank] pidfds; empty for threads
  Background* background_ = nullptr;
  std::atomic<bool> stopped_ = false;
};

}  // namespace ddpbench::comm
