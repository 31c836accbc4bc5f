// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ShmEngine: carries out one rank's operations in shared memory.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/queue/engine.h"
#include "parallel/comm/shm/collectives/collective.h"
#include "parallel/comm/shm/message_transfers.h"

namespace ddpbench::comm {

class ShmEngine final : public Engine {
 public:
  // This rank's end of `block`.
  ShmEngine(const std::shared_ptr<ControlBlock>& block, int rank, AllReduceAlgorithm all_reduce);

  PeerGroup& peers() noexcept { return peers_; }
  // May be changed only while no thread executes.
  PeerMemory& memory() noexcept { return memory_; }
  // What this rank has taken from each rank so far, [size]. Only while no thread executes.
  const std::vector<Traffic>& taken() const noexcept { return taken_; }
  // The algorithms that all-reduces of registered memory have run so far.
  std::vector<AllReduceAlgorithm> all_reduces_run() const;

  WorkTimes run_collective(const Operation& operation, Deadline deadline, Waiter waiter) override;
  void start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) override;
  void advance_messages() override { messages_.advance(); }
  void await(const Operation* operation, Deadline deadline, Waiter waiter,
             PredicateRef done) override;
  std::optional<Deadline> earliest_message_deadline() const override {
    return messages_.earliest_deadline();
  }
  std::vector<std::shared_ptr<QueuedWork>> take_messages() override { return messages_.take_all(); }

  void wake_waiter() noexcept override { peers_.wake_own_waiter(); }
  void abort(const std::string& reason) noexcept override { peers_.abort(reason); }
  void throw_if_aborted(const Operation* operation) const override {
    if (peers_.aborted()) peers_.throw_aborted(operation);
  }
  void stop() noexcept override { peers_.stop(); }
  void leave() noexcept override { peers_.leave(); }
  std::string prefix(const Operation* operation) const override { return peers_.prefix(operation); }

 private:
  void run(Collective& collective);

  const AllReduceAlgorithm all_reduce_;
  PeerGroup peers_;
  PeerMemory memory_;
  WriteTuners tuners_;
  std::vector<Traffic> taken_;  // [size]
  MessageTransfers messages_;
  const WaitPolicy caller_policy_, thread_policy_;
  std::vector<const std::byte*> sources_;     // scratch of collectives, [size]
  std::uint64_t collectives_ = 0;             // number run; equal on all ranks
  std::atomic<unsigned> algorithms_run_ = 0;  // bits, by the enumerators' numbers
};

}  // namespace ddpbench::comm
