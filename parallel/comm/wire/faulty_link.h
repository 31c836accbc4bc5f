// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// FaultyLink: a link that breaks and heals when its program says so, for tests and demonstrations.
// It decorates the link of any library.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "parallel/comm/call_watch.h"
#include "parallel/comm/wire/wire_link.h"

namespace ddpbench::comm {

// While it is broken, transfers and notices of this rank wait here, and what comes is not noticed.
// Transfers that the library has begun before go on.
class FaultyLink final : public WireLink {
 public:
  // `watch` outlives this.
  FaultyLink(std::unique_ptr<WireLink> link, CallWatch& watch)
      : watch_(watch), link_(std::move(link)) {}

  std::unique_ptr<Transfer> send(int peer, const Slot& slot, const void* data,
                                 std::size_t bytes) override;
  std::unique_ptr<Transfer> recv(int peer, const Slot& slot, void* data,
                                 std::size_t bytes) override;
  void prepare(Waiter waiter) override { link_->prepare(waiter); }
  bool wait(Transfer& transfer) override;
  void listen(std::function<void(int peer, const Notice&)> hear,
              std::function<void(int peer)> lose) override;
  void tell(int peer, const Notice& notice) noexcept override;
  void poll() override;
  void doze(std::atomic<std::uint32_t>& bell, std::uint32_t seen, Deadline deadline) override;
  bool run_collective(const Operation& operation, const std::function<void()>& look) override;
  void give_up() noexcept override { link_->give_up(); }
  void stop() noexcept override;

 private:
  struct Held;  // a transfer, and how to begin it
  struct Letter {
    int peer;
    Notice notice;
  };
  // Whether it is whole; sends and hears what waited.
  bool is_whole();

  CallWatch& watch_;
  std::function<void(int peer, const Notice&)> hear_;
  std::list<Held*> held_;  // sends that have not begun; the executing thread's
  std::mutex mutex_;       // guards what follows
  std::deque<Letter> unsent_, unheard_;
  const std::unique_ptr<WireLink> link_;  // last: its threads use the rest
};

}  // namespace ddpbench::comm
