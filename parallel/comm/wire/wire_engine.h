// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WireEngine: carries out one rank's operations over a WireLink.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/link_traffic.h"
#include "parallel/comm/queue/engine.h"
#include "parallel/comm/wire/rank_board.h"
#include "parallel/comm/wire/wire_link.h"

namespace ddpbench::comm {

class WireEngine final : public Engine {
 public:
  // `link` connects the ranks; null for one rank.
  WireEngine(int rank, int size, std::unique_ptr<WireLink> link, AllReduceAlgorithm all_reduce);
  ~WireEngine() override { leave(); }

  RankBoard& board() noexcept { return board_; }
  // The algorithms of this room that all-reduces have run so far.
  std::vector<AllReduceAlgorithm> all_reduces_run() const;
  // What this rank has taken from each, [size], without what a library's own collectives moved.
  const std::vector<Traffic>& taken() const noexcept { return taken_; }
  // Throws CommError when the communicator was aborted or a peer has died.
  void check_peers();

  WorkTimes run_collective(const Operation& operation, Deadline deadline, Waiter waiter) override;
  void start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) override;
  void advance_messages() override;
  void await(const Operation* operation, Deadline deadline, Waiter waiter,
             PredicateRef done) override;
  std::optional<Deadline> earliest_message_deadline() const override;
  std::vector<std::shared_ptr<QueuedWork>> take_messages() override;

  void wake_waiter() noexcept override { wake(); }
  void abort(const std::string& reason) noexcept override;
  void throw_if_aborted(const Operation* operation) const override {
    board_.throw_if_aborted(operation);
  }
  void stop() noexcept override;
  void leave() noexcept override;
  std::string prefix(const Operation* operation) const override { return board_.prefix(operation); }

 private:
  using Transfer = std::unique_ptr<WireLink::Transfer>;
  struct Part {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  // A collective under way.
  struct Call {
    const Operation& operation;
    Deadline deadline;
    std::uint64_t number = 0;  // of the collective
    int looks = 0;             // times that this rank has looked around
    std::vector<Transfer> sends = {};
  };
  struct Message {
    std::shared_ptr<QueuedWork> work;
    std::uint64_t number = 0;  // among those from one rank to the other
    Deadline deadline;
    Transfer transfer = {};
  };
  // What a peer has told of messages.
  struct PeerMessages {
    std::deque<Notice> sends;  // that this rank has not received
    std::uint64_t taken = 0;   // of this rank's sends
  };

  // Called with each segment of a chunk that is reduced: its number, offset and bytes.
  using Reduced = std::function<void(int segment, std::size_t offset, std::size_t bytes)>;

  // Collectives (wire_collectives.cpp). Each returns when what this rank receives is there.
  void run(Call& call);
  void run_own(Call& call);
  void run_all_reduce(Call& call);
  void all_reduce_direct(Call& call);
  void all_reduce_small(Call& call);
  void all_reduce_ring(Call& call);
  void run_reduce(Call& call);
  void run_reduce_scatter(Call& call);
  void run_broadcast(Call& call);
  void run_all_gather(Call& call);
  void run_gather(Call& call);
  void run_scatter(Call& call);
  void run_barrier(Call& call);
  void reduce_chunk(Call& call, const Elements& whole, std::byte* target, const Reduced& reduced);
  std::vector<Transfer> receive_results(Call& call, const Elements& whole);
  Part chunk(const Elements& whole, int index) const;
  void for_peers(const std::function<void(int)>& each) const;

  static Slot slot_of(const Call& call, int step);
  // Nothing to transfer is done at once.
  void post_send(Call& call, int peer, int step, const void* data, std::size_t bytes);
  Transfer post_recv(const Call& call, int peer, int step, void* data, std::size_t bytes);
  void await(Call& call, Transfer& transfer);
  void await_sends(Call& call);
  // Memory until the next call. REQUIRES: nothing is under way in what was given before.
  std::byte* scratch(std::size_t bytes);

  // Waiting (wire_engine.cpp).
  void look_around(Call& call, int peer);
  [[noreturn]] void fail_for(int peer, const Operation* operation);

  // Messages (wire_messages.cpp).
  bool advance(Message& message);
  void announce(const Operation& send, std::uint64_t number);
  void copy_own(const Message& recv);
  void finish_transfer(Message& message);

  void hear(int peer, const Notice& notice);
  void tell_all(const Notice& notice) noexcept;
  void wake() noexcept;

  RankBoard board_;
  const AllReduceAlgorithm all_reduce_;
  std::vector<std::byte> scratch_;
  std::atomic<unsigned> algorithms_run_ = 0;  // bits, by the enumerators' numbers

  std::vector<Traffic> taken_;  // [peer]
  std::vector<Message> messages_;
  std::vector<std::uint64_t> sent_, received_;  // [peer] messages begun
  std::mutex peer_messages_mutex_;
  std::vector<PeerMessages> peer_messages_;  // [peer]
  std::atomic<std::uint32_t> bell_ = 0;
  std::atomic<bool> left_ = false;
  const std::unique_ptr<WireLink> link_;  // last: its threads use the rest
};

}  // namespace ddpbench::comm
