// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// LibraryEngine: carries out one rank's operations by the collectives and messages of another
// project's library. Ranks tell each other nothing beside their data: which rank a call waits for
// is known to who sees the calls of all ranks (CallWatch).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/queue/engine.h"

namespace ddpbench::comm {

// The moments between two questions to a library that moves data only while it is asked. After
// kSpin_s it gives the core away, and once another thread has used it so, it sleeps, ever longer.
class Pause {
 public:
  // The communication thread usually shares its core with the computing one, and does not spin.
  explicit Pause(Waiter waiter);
  void take();

 private:
  double spin_until_s_;
  std::int64_t nap_us_ = 0;  // 0: nobody has been seen to want the core
};

class LibraryEngine : public Engine {
 public:
  LibraryEngine(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  WorkTimes run_collective(const Operation& operation, Deadline deadline, Waiter waiter) final;
  void start_message(std::shared_ptr<QueuedWork> work) final;
  void await(const Operation* operation, Deadline deadline, Waiter waiter, PredicateRef done) final;
  void drop_messages() noexcept final { messages_.clear(); }

  void wake_waiter() noexcept final;
  void abort(const std::string& reason) noexcept final;
  void throw_if_aborted(const Operation* operation) const final;
  void stop() noexcept final;
  void leave() noexcept override {}
  std::string prefix(const Operation* operation) const override {
    return call_prefix(rank_, size_, operation);
  }

 protected:
  // A message under way. Destroying it gives it up: its memory is not touched any more.
  class Transfer {
   public:
    Transfer() = default;
    virtual ~Transfer() = default;
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    // Whether it is done. Throws CommError.
    virtual bool test() = 0;
  };

  // What the library does. Unless averages() every average is a sum, which the caller divides. Both
  // throw CommError, whose words need not name the operation, and `run` CommTimeout after the
  // deadline.
  virtual void run(const Operation& operation, Deadline deadline, Waiter waiter) = 0;
  virtual std::unique_ptr<Transfer> start(const Operation& operation) = 0;
  virtual bool averages() const noexcept { return false; }
  // Makes this rank's calls fail, and those of its peers where the library can.
  virtual void give_up(const std::string& reason) noexcept = 0;
  // Waits until wake_waiter() is called, or for a moment. By default for the latter.
  virtual void doze(Pause& pause, std::uint32_t, Deadline) { pause.take(); }

  bool has_failed() const;
  std::atomic<std::uint32_t> bell_ = 0;  // wake_waiter() changes it

 private:
  struct Message {
    std::shared_ptr<QueuedWork> work;
    std::unique_ptr<Transfer> transfer;
  };
  void advance_messages();

  const int rank_, size_;
  std::vector<Message> messages_;
  mutable std::mutex mutex_;  // guards what follows
  std::optional<std::string> aborted_;
  bool stopped_ = false, running_ = false;
};

// A blocking all-gather of short texts through the store, [rank], for ranks that are not connected
// yet. Throws CommTimeout naming the first rank that does not come in options.timeout_s. To be
// called once for each options.name.
std::vector<std::string> exchange_in(Store& store, int rank, int size, const WorldOptions& options,
                                     const std::string& text);

}  // namespace ddpbench::comm
