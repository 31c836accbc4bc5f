// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives under way. They progress side by side, whenever their rank waits for anything,
// so that no order of sends and receives among ranks can block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/comm/shm/peer_group.h"
#include "parallel/comm/shm/peer_memory.h"
#include "parallel/comm/shm/queue/shm_work.h"
#include "parallel/comm/shm/store_tuner.h"

namespace ddpbench::comm {

class MessageTransfers : public Background {
 public:
  // `on_done` is told each completed work.
  MessageTransfers(PeerGroup& peers, const PeerMemory& memory, StoreTuners& tuners,
                   std::function<void(RingWork&)> on_done);

  // Messages between two ranks match in the order of these calls.
  void start(std::shared_ptr<RingWork> work, Deadline deadline);
  bool active() const override { return !transfers_.empty(); }
  // Throws CommError when sender and receiver disagree.
  bool advance() override;
  bool needs(int peer) const override;
  // Of those that were issued to start at once; nothing when there are none.
  std::optional<Deadline> earliest_deadline() const;
  // Takes out all works that are not done.
  std::vector<std::shared_ptr<RingWork>> take_all();

 private:
  struct Transfer {
    std::shared_ptr<RingWork> work;
    std::uint64_t number = 0;  // of the message in its channel
    Deadline deadline;
    bool posted = false;
    bool staged = false;
    std::size_t moved_bytes = 0;
  };

  bool advance(Transfer& transfer);
  bool advance_send(Transfer& transfer, Channel& channel);
  bool advance_recv(Transfer& transfer, Channel& channel);
  void copy_message(const Operation& recv, const Channel& channel);
  bool fill_segments(Transfer& transfer, Channel& channel);
  bool drain_segments(Transfer& transfer, Channel& channel);
  void check_matches(const Operation& recv, const Descriptor& message) const;

  PeerGroup& peers_;
  const PeerMemory& memory_;
  StoreTuners& tuners_;
  const std::function<void(RingWork&)> on_done_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint64_t> sent_, received_;  // [peer] messages begun
};

}  // namespace ddpbench::comm
