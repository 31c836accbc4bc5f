// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Executor: decides which thread executes the operations of one rank.
//
// Operations start in the order of issue. At any time at most one thread executes: it holds the
// "role". It may be a thread that waits for a work; it executes up to that work itself, which
// spares a hand-over. Or it is the communication thread, which executes up to the last work that
// was issued to start at once. Collectives run to their end one by one. Messages, once started,
// progress whenever the executing thread waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "parallel/comm/call_watch.h"
#include "parallel/comm/queue/block_pool.h"
#include "parallel/comm/queue/engine.h"
#include "parallel/comm/queue/work_queue.h"

namespace ddpbench::comm {

struct ExecutorOptions {
  double timeout_s = 60;          // default deadline of every wait
  std::vector<int> thread_cores;  // OS processors the communication thread may run on; empty: any
  // Called after each operation of this rank, on the thread that completed it. Must be cheap.
  std::function<void()> progress;
  CallWatch* watch = nullptr;  // of this rank's calls; null: none. It outlives this
};

class Executor final : public WorkDriver, public std::enable_shared_from_this<Executor> {
 public:
  Executor(std::unique_ptr<Engine> engine, ExecutorOptions options);
  ~Executor() override;

  // Called by the issuing thread. Throws CommError when the communicator was aborted.
  std::shared_ptr<QueuedWork> issue(const Operation& operation, Start start);
  void group_start() { queue_.group_start(); }
  void group_end();

  void complete(QueuedWork& work, Deadline deadline) override;
  bool test(QueuedWork& work) override;
  std::uint32_t changes() const noexcept override {
    return changes_.load(std::memory_order_seq_cst);
  }
  void await_change(std::uint32_t seen, Deadline deadline) override;
  double timeout_s() const noexcept override { return options_.timeout_s; }
  void on_complete(const QueuedWork& work) override;

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
  void drive(QueuedWork& work, Deadline deadline);
  void drive_messages(Deadline deadline, PredicateRef done, const Operation* operation = nullptr);
  void run_messages();
  void drive_background();
  void fail_all(QueuedWork* culprit, const std::exception_ptr& error) noexcept;

  bool try_role() noexcept;
  void release_role() noexcept;
  void announce() noexcept;
  template <typename Predicate>
  void wait_locally(Deadline deadline, Predicate&& predicate);

  void start_background(std::uint64_t last);
  void serve();
  bool background_wanted() noexcept;
  bool queue_waits() noexcept;  // for the communication thread
  void wake_thread() noexcept;

  const ExecutorOptions options_;
  const std::unique_ptr<Engine> engine_;
  const std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  WorkQueue queue_;

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

}  // namespace ddpbench::comm
