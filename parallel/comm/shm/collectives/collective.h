// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One run of a collective on one rank: entering, positions, and access to the peers' memory. Each
// algorithm begins with begin and ends when this rank's result is complete and no peer reads its
// memory any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/shm/peers/peer_group.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {

class Collective {
 public:
  // The number of a collective and the conditions under which it runs.
  struct Run {
    std::uint64_t number = 0;
    Deadline deadline;
    WaitPolicy policy;
    std::span<const std::byte*> sources;  // scratch, [size]
    WriteTuners* tuners = nullptr;
    std::span<PeerTraffic> traffic;  // [size] adds up what this rank takes from each peer
  };

  Collective(PeerGroup& peers, PeerMemory& memory, const Operation& operation, const Run& run);

  int rank() const noexcept { return peers_.rank(); }
  int size() const noexcept { return peers_.size(); }
  const Operation& operation() const noexcept { return operation_; }
  const Run& run() const noexcept { return run_; }
  ReduceSpec reduce_spec() const { return {operation_.in.type, operation_.op, size()}; }
  double started_s() const noexcept { return started_s_; }
  // The time when all that this rank waited for had entered; its start if it waited for none.
  double arrived_s() const noexcept { return arrived_s_; }

  // Waits until this rank's mailbox and descriptor of kHistory collectives ago may be overwritten.
  void begin();
  // Posts the descriptor. `exposed`, or a copy of it, is what peers may read from now on.
  void enter(const Elements& exposed = {});
  // Whether the peers can map `elements`.
  bool is_mapped(const Elements& elements) const {
    return memory_.locate(elements).buffer != MemoryLocation::kCopied;
  }
  // Waits until the root, or all, have entered, and checks that they called the same operation.
  void await_root();
  void await_all_entered();
  // What a peer (or this rank) exposed. REQUIRES: it has entered.
  std::byte* exposed(int peer, std::size_t bytes) const;
  std::byte* mailbox(int peer) const { return peers_.block().mailbox(peer, run_.number); }

  // Writes results: reduces `sources`, or copies, in the mode that has proved fastest.
  void reduce_to(std::byte* target, std::span<const std::byte* const> sources, std::size_t bytes,
                 const ReduceSpec& spec);
  void copy(std::byte* target, const std::byte* source, std::size_t bytes);

  // Counts what this rank has read of a peer's data: a message, or with `continues` more of the
  // last one from this peer.
  void count_taken(int peer, std::size_t bytes, bool continues = false);

  // publish: this rank has reached `step`. await: waits until a peer has.
  void publish(std::uint64_t step) { peers_.publish(peers_.own().progress, at(step)); }
  void await(int peer, std::uint64_t step);
  // finish_reading: this rank reads no peer's memory any more. await_finished: waits until the peer
  // reads this rank's no more.
  void finish_reading();
  void await_finished(int peer);
  void await_all_finished();

 private:
  void await_entered(int peer);
  template <typename Write>
  void timed(std::size_t bytes, Write&& write);
  std::uint64_t at(std::uint64_t step) const { return position(run_.number, step); }
  void await_counter(int peer, const std::atomic<std::uint64_t>& counter, std::uint64_t value);

  PeerGroup& peers_;
  PeerMemory& memory_;
  const Operation& operation_;
  const Run run_;
  WriteTuner& tuner_;
  const WriteMode write_mode_;
  double written_s_ = 0;  // time and bytes of writing, where they are measured
  std::size_t written_bytes_ = 0;
  double started_s_;
  double arrived_s_;
};

}  // namespace ddpbench::comm
