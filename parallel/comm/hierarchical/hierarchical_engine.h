// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HierarchicalEngine: carries out one rank's all-reduces over two communicators, one of its host
// and one of the first ranks of all hosts.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/queue/engine.h"

namespace ddpbench::comm {

class HierarchicalEngine final : public Engine {
 public:
  // `world`: all ranks; it outlives this, and hears of aborts. `host`: the ranks of this host.
  // `across`: the first ranks of all hosts; null on other ranks.
  HierarchicalEngine(Communicator& world, std::unique_ptr<Communicator> host,
                     std::unique_ptr<Communicator> across);

  Communicator& host() noexcept { return *host_; }
  bool is_one_host() const { return host_->size() == world_.size(); }

  // REQUIRES: an all-reduce.
  WorkTimes run_collective(const Operation& operation, Deadline deadline, Waiter waiter) override;

  // It never gets messages.
  void start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) override;
  void advance_messages() override {}
  void await(const Operation* operation, Deadline deadline, Waiter waiter,
             PredicateRef done) override;
  std::optional<Deadline> earliest_message_deadline() const override { return std::nullopt; }
  std::vector<std::shared_ptr<QueuedWork>> take_messages() override { return {}; }

  void wake_waiter() noexcept override {}
  void abort(const std::string& reason) noexcept override;
  void throw_if_aborted(const Operation* operation) const override;
  void stop() noexcept override;
  void leave() noexcept override {}
  std::string prefix(const Operation* operation) const override;

 private:
  void all_reduce_in_parts(const Operation& operation, Deadline deadline);

  Communicator& world_;
  const std::unique_ptr<Communicator> host_, across_;
  std::atomic<bool> running_ = false;
  mutable std::mutex mutex_;
  std::optional<std::string> aborted_;
  std::vector<Work> crossed_;  // [part]; kept, so that a step allocates nothing
};

}  // namespace ddpbench::comm
