// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GlooLink: one rank's connections to all others. Only its source and gloo.cpp know Gloo.
//
// A thread of Gloo's posts the transfers and moves the bytes (loop_calls.h). Gloo can neither test
// a transfer nor wait for any one of several, so a rank waits for one transfer at a time. Therefore
// each peer has a thread here that receives its notices, and a clock thread interrupts long waits
// so that the waiting thread can check for failures.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/wire/wire_link.h"

namespace gloo {
class Context;
}

namespace ddpbench::comm {

class LoopCalls;

class GlooLink final : public WireLink {
 public:
  // Collective: connects all ranks. Throws CommError.
  GlooLink(Store& store, int rank, int size, const EngineOptions& options);
  ~GlooLink() override;

  std::unique_ptr<Transfer> send(int peer, const Slot& slot, const void* data,
                                 std::size_t bytes) override;
  std::unique_ptr<Transfer> recv(int peer, const Slot& slot, void* data,
                                 std::size_t bytes) override;
  bool wait(Transfer& transfer) override;
  void listen(std::function<void(int peer, const Notice&)> hear,
              std::function<void(int peer)> lose) override;
  void tell(int peer, const Notice& notice) noexcept override;
  void stop() noexcept override;

 private:
  class Moving;  // a transfer
  class Awaited;
  struct Sent;
  struct Mail;

  std::unique_ptr<Moving> start(int peer, std::uint64_t slot, void* data, std::size_t bytes,
                                bool is_send);
  // Waits until the transfer is done or that time (steady_s()) has come; whether it is done. Throws
  // LostPeer. Any thread may call it.
  bool wait_until(const Moving& moving, double until_s);
  // Until the last notices to all peers are sent, or kFarewell_s have passed.
  void await_notices() noexcept;
  void hear_peer(int peer, const std::function<void(int, const Notice&)>& hear);
  void tick();

  const int rank_;
  const int size_;
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<LoopCalls> loop_calls_;
  std::vector<std::unique_ptr<Mail>> mail_;  // [peer]
  std::vector<std::thread> listeners_;
  std::atomic<bool> stopping_ = false;

  std::mutex clock_mutex_;
  std::condition_variable clock_;
  std::vector<const Awaited*> awaited_;
  bool clock_ends_ = false;
  std::thread clock_thread_;
};

}  // namespace ddpbench::comm
