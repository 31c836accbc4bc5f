// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MessageTransfers: the sends and receives in flight. They progress side by side whenever their
// rank waits, so that no order of sends and receives among ranks can block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/comm/queue/engine.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/shm/emulated_link.h"
#include "parallel/comm/shm/peers/peer_group.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {

class MessageTransfers : public Background {
 public:
  // Adds what passes to and from each peer to `traffic`, [size]. All of these outlive this.
  MessageTransfers(PeerGroup& peers, PeerMemory& memory, WriteTuners& tuners,
                   std::span<PeerTraffic> traffic, EmulatedLink& link);

  // Messages between two ranks match in the order of these calls.
  void start(std::shared_ptr<QueuedWork> work);
  bool active() const override { return !transfers_.empty(); }
  // Completes the works that are done. Throws CommError when sender and receiver disagree.
  bool advance() override;
  bool needs(int peer) const override;
  double wake_s() const override;
  void drop_all() noexcept { transfers_.clear(); }

 private:
  struct Transfer {
    std::shared_ptr<QueuedWork> work;
    std::uint64_t number = 0;  // number of the message in its channel
    bool posted = false;
    double arrival_s = 0;  // over the emulated link; 0: it has not been taken
  };

  bool advance(Transfer& transfer);
  bool advance_send(Transfer& transfer, Channel& channel);
  bool advance_recv(Transfer& transfer, Channel& channel);
  void copy_message(const Operation& recv, const Channel& channel);
  void check_matches(const Operation& recv, const Descriptor& message) const;

  PeerGroup& peers_;
  PeerMemory& memory_;
  WriteTuners& tuners_;
  const std::span<PeerTraffic> traffic_;
  EmulatedLink& link_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint64_t> sent_, received_;  // [peer] messages begun
};

}  // namespace ddpbench::comm
