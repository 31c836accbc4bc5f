// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Executor: decides which thread executes the operations of one rank.
//
// Operations start in the order of issue. At any time at most one thread executes: it holds the
// "role". It may be a thread that waits for a work, and executes up to that, or the communication
// thread, which executes up to the last work that was issued to start at once. Collectives run to
// their end one by one. Messages, once started, progress whenever the executing thread waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/queue/engine.h"

namespace ddpbench::comm {

// The works of one rank that were issued and have not begun, in the order of issue.
class WorkQueue {
 public:
  // Called by the issuing thread. Works between group_start and group_end enter the queue at
  // group_end, messages first, so that a collective of the group progresses them while it waits.
  // Both return the number of the last entered work that is to start at once; 0: none.
  std::uint64_t add(const std::shared_ptr<QueuedWork>& work);
  void group_start() noexcept { ++group_depth_; }
  std::uint64_t group_end();

  // Called by the executing thread. Takes out the first work if its number is at most `last` or it
  // is a message; otherwise null. Messages may start early, because they hinder no other work.
  std::shared_ptr<QueuedWork> take(std::uint64_t last);
  // Takes out all works.
  std::vector<std::shared_ptr<QueuedWork>> take_all();

  // Any thread may ask whether the queue holds any work, or the work of number `sequence`.
  bool holds_any() const noexcept { return holds(issued()); }
  std::uint64_t issued() const noexcept { return issued_.load(std::memory_order_seq_cst); }
  bool holds(std::uint64_t sequence) const noexcept {
    return taken_.load(std::memory_order_seq_cst) < sequence;
  }

 private:
  void enter(const std::shared_ptr<QueuedWork>& work);

  int group_depth_ = 0;  // for the issuing thread
  std::vector<std::shared_ptr<QueuedWork>> group_;

  std::mutex mutex_;
  std::pmr::unsynchronized_pool_resource memory_;  // kept, so that later works allocate nothing
  std::pmr::deque<std::shared_ptr<QueuedWork>> works_{&memory_};
  std::atomic<std::uint64_t> issued_ = 0;  // sequence number of the last work that entered
  std::atomic<std::uint64_t> taken_ = 0;   // and of the last that was taken out
};

class Executor final : public std::enable_shared_from_this<Executor> {
 public:
  Executor(std::unique_ptr<Engine> engine, WorldOptions options);
  ~Executor() { shut_down(); }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Called by the issuing thread. Throws CommError when the communicator was aborted.
  std::shared_ptr<QueuedWork> issue(const Operation& operation, Start start);
  void group_start() { queue_.group_start(); }
  void group_end();

  // Blocks until the work is done; rethrows its error. Thread-safe.
  void complete(QueuedWork& work, Deadline deadline);
  // As Communicator::wait_until.
  void wait_until(PredicateRef done) {
    const Deadline never = deadline_after(std::numeric_limits<double>::infinity());
    execute_until(done, queue_.issued(), nullptr, never);
  }
  // The deadline, in seconds, of waits that have none of their own.
  double timeout_s() const noexcept { return options_.timeout_s; }
  // Called on the executing thread when a work has succeeded.
  void on_complete(const QueuedWork& work);

  // Calls `change` while no thread executes. Throws CommTimeout.
  void while_idle(const std::function<void()>& change);
  void abort(const std::string& reason) noexcept;
  // Ends the communication thread and fails what is not done.
  void shut_down() noexcept;

 private:
  class Role;  // held while executing

  // Called by the holder of the role.
  void run_queue(std::uint64_t last, Deadline deadline, Waiter waiter);
  void run_collective(QueuedWork& work, Deadline deadline, Waiter waiter);
  void start_message(std::shared_ptr<QueuedWork> work, Waiter waiter);
  void note_begin(const Operation& operation, Waiter waiter);
  // Up to the work of number `last`; `operation` is what is waited for, null: any message.
  void execute_until(PredicateRef done, std::uint64_t last, const Operation* operation,
                     Deadline deadline);
  void drive(PredicateRef done, std::uint64_t last, const Operation* operation, Deadline deadline);
  std::optional<Deadline> earliest_deadline();
  void drive_background();
  void fail_all(QueuedWork* culprit, const std::exception_ptr& error) noexcept;

  void announce() noexcept;
  template <typename Predicate>
  void wait_locally(Deadline deadline, Predicate&& predicate);

  void start_background(std::uint64_t last);
  void serve();
  bool background_wanted() noexcept;
  bool queue_waits() noexcept;  // for the communication thread
  void wake_thread() noexcept;

  const WorldOptions options_;
  const std::unique_ptr<Engine> engine_;
  WorkQueue queue_;
  struct Begun {
    std::shared_ptr<QueuedWork> message;
    Deadline deadline;
  };
  std::vector<Begun> in_flight_;  // for the holder of the role

  std::atomic<bool> role_taken_ = false;
  std::atomic<int> claimants_ = 0;          // callers that want the role
  std::atomic<std::uint32_t> changes_ = 0;  // completions and releases; callers sleep on it
  std::atomic<int> local_sleepers_ = 0;

  std::thread thread_;  // made by the first call that needs it
  std::atomic<std::uint64_t> background_up_to_ = 0;
  std::atomic<int> background_messages_ = 0;  // in flight, and no caller has to wait for them
  std::atomic<std::uint32_t> thread_bell_ = 0;
  std::atomic<bool> stopping_ = false;
};

// The communicator over an engine. As it is, buffers need no registration.
class QueuedCommunicator : public Communicator {
 public:
  QueuedCommunicator(std::string backend, int rank, int size, std::unique_ptr<Engine> engine,
                     const WorldOptions& options);
  ~QueuedCommunicator() override { executor_->shut_down(); }
  QueuedCommunicator(const QueuedCommunicator&) = delete;
  QueuedCommunicator& operator=(const QueuedCommunicator&) = delete;

  std::string backend() const override { return backend_; }
  double timeout_s() const noexcept override { return executor_->timeout_s(); }
  void group_start() override { executor_->group_start(); }
  void group_end() override { executor_->group_end(); }
  void wait_until(PredicateRef done) override { executor_->wait_until(done); }
  void register_buffer(const Buffer&) override {}
  void deregister_buffer(const Buffer&) override {}
  void abort(const std::string& reason) noexcept override { executor_->abort(reason); }
  void check() override { engine_->check(); }

 protected:
  Work issue(const Operation& operation, const CallOptions& options) override;
  Executor& executor() noexcept { return *executor_; }
  Engine& engine() const noexcept { return *engine_; }

 private:
  const std::string backend_;
  Engine* const engine_;                      // owned by the executor
  const std::shared_ptr<Executor> executor_;  // works in flight own it, too
};

}  // namespace ddpbench::comm
