// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MessageTransfers: the sends and receives in flight. They progress side by side whenever their
// rank waits, so that no order of sends and receives among ranks can block.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "parallel/comm/link_traffic.h"
#include "parallel/comm/queue/engine.h"
#include "parallel/comm/shm/collectives/reduce_kernels.h"
#include "parallel/comm/shm/peers/peer_group.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {

class MessageTransfers : public Background {
 public:
  // Adds what is received from each peer to `taken`, [size]. All of these outlive this.
  MessageTransfers(PeerGroup& peers, const PeerMemory& memory, WriteTuners& tuners,
                   std::span<Traffic> taken);

  // Messages between two ranks match in the order of these calls.
  void start(std::shared_ptr<QueuedWork> work, Deadline deadline);
  bool active() const override { return !transfers_.empty(); }
  // Completes the works that are done. Throws CommError when sender and receiver disagree.
  bool advance() override;
  bool needs(int peer) const override;
  // The earliest deadline of the messages that were issued to start at once, if there are any.
  std::optional<Deadline> earliest_deadline() const;
  // Takes out all works that are not done.
  std::vector<std::shared_ptr<QueuedWork>> take_all();

 private:
  struct Transfer {
    std::shared_ptr<QueuedWork> work;
    std::uint64_t number = 0;  // number of the message in its channel
    Deadline deadline;
    bool posted = false;
    bool staged = false;
    std::size_t moved_bytes = 0;
  };

  bool advance(Transfer& transfer);
  bool advance_send(Transfer& transfer, Channel& channel);
  bool advance_recv(Transfer& transfer, Channel& channel);
  void copy_message(const Operation& recv, const Channel& channel);
  bool fill_packets(Transfer& transfer, Channel& channel);
  bool drain_packets(Transfer& transfer, Channel& channel);
  void check_matches(const Operation& recv, const Descriptor& message) const;

  PeerGroup& peers_;
  const PeerMemory& memory_;
  WriteTuners& tuners_;
  const std::span<Traffic> taken_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint64_t> sent_, received_;  // [peer] messages begun
};

}  // namespace ddpbench::comm
