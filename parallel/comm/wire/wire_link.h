// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WireLink: what a library that moves messages between ranks gives a WireEngine: transfers, and
// notices beside them. A link implements it for one library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "parallel/comm/queue/engine.h"
#include "parallel/comm/queue/futex.h"
#include "parallel/comm/wire/rank_board.h"

namespace ddpbench::comm {

// The connection to the peer has ended, or the library has failed on it.
struct LostPeer {
  int peer;
};

// Transfers of equal slots match. No two that are under way between two ranks, in one direction,
// have the same slot.
struct Slot {
  std::uint64_t number = 0;  // of the collective, or of the message between the two ranks
  int step = 0;              // below 2^14
  std::uint64_t call = 0;    // a hash of what is called; differs where ranks disagree
  // Whether the transfer belongs to a collective. A rank is ready to receive all of that when it
  // begins the call, not only once other data has come; a message may come long before the peer
  // asks for it.
  bool collective = true;
};

class WireLink {
 public:
  // A send or a receive under way. Destroying it gives it up.
  class Transfer {
   public:
    explicit Transfer(int peer) : peer_(peer) {}
    virtual ~Transfer() = default;
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    int peer() const noexcept { return peer_; }

   private:
    const int peer_;
  };

  virtual ~WireLink() = default;

  // `bytes` is not 0, and `peer` another rank. If the connection has ended, these or wait() throw
  // LostPeer.
  virtual std::unique_ptr<Transfer> send(int peer, const Slot& slot, const void* data,
                                         std::size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> recv(int peer, const Slot& slot, void* data,
                                         std::size_t bytes) = 0;
  // Who waits from now on; links that ask again and again heed it.
  virtual void prepare(Waiter) {}
  // Waits for the transfer; true when it is done, false when it is time to look around. Throws
  // LostPeer. One thread at a time.
  virtual bool wait(Transfer& transfer) = 0;

  // From now on `hear` is called with each notice of a peer and `lose` when the connection to it
  // ends, on any thread. To be called once.
  virtual void listen(std::function<void(int peer, const Notice&)> hear,
                      std::function<void(int peer)> lose) = 0;
  // Any thread may call it. A peer that is gone hears nothing.
  virtual void tell(int peer, const Notice& notice) noexcept = 0;
  // Hears what has come, where no thread of the link does.
  virtual void poll() {}
  // Sleeps while `bell` is `seen`, for a while; may return early.
  virtual void doze(std::atomic<std::uint32_t>& bell, std::uint32_t seen, Deadline deadline) {
    futex_wait(bell, seen, deadline, FutexScope::process);
  }
  // Runs the collective by the library's own, if it has it, and calls `look` when it is time to
  // look around, which may throw. Throws LostPeer. False: this rank has to do it.
  virtual bool run_collective(const Operation&, const std::function<void()>& /*look*/) {
    return false;
  }
  // The communicator has failed: its ranks are no longer in step.
  virtual void give_up() noexcept {}
  // Waits shortly until the notices are sent, and hears no more.
  virtual void stop() noexcept = 0;
};

}  // namespace ddpbench::comm
