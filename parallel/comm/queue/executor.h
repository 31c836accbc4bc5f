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
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/queue/engine.h"

namespace ddpbench::comm {

// Allocator for objects of one type that come and go. It keeps freed memory for the next object, so
// that issuing operations allocates nothing after the first few. Thread-safe.
class BlockPool {
 public:
  BlockPool() = default;
  ~BlockPool() {
    for (void* block : free_) ::operator delete(block);
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // REQUIRES: `bytes` is the same in all calls.
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return ::operator new(bytes);
    void* const block = free_.back();
    free_.pop_back();
    return block;
  }
  void give_back(void* block) {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> free_;
};

// For std::allocate_shared: one allocation holds the object and its count. Keeps the pool alive.
template <typename T>
class PoolAllocator {
 public:
  using value_type = T;
  explicit PoolAllocator(std::shared_ptr<BlockPool> pool) : pool_(std::move(pool)) {}
  template <typename U>
  PoolAllocator(const PoolAllocator<U>& other) : pool_(other.pool()) {}  // NOLINT: by contract

  T* allocate(std::size_t count) { return static_cast<T*>(pool_->take(count * sizeof(T))); }
  void deallocate(T* block, std::size_t) { pool_->give_back(block); }
  const std::shared_ptr<BlockPool>& pool() const { return pool_; }
  template <typename U>
  bool operator==(const PoolAllocator<U>& other) const {
    return pool_ == other.pool();
  }

 private:
  std::shared_ptr<BlockPool> pool_;
};

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
  bool holds_any() const noexcept { return holds(issued_.load(std::memory_order_seq_cst)); }
  bool holds(std::uint64_t sequence) const noexcept {
    return taken_.load(std::memory_order_seq_cst) < sequence;
  }

 private:
  void enter(const std::shared_ptr<QueuedWork>& work);

  int group_depth_ = 0;  // for the issuing thread
  std::vector<std::shared_ptr<QueuedWork>> group_;

  std::mutex mutex_;
  std::vector<std::shared_ptr<QueuedWork>> works_;  // from head_ on
  std::size_t head_ = 0;
  std::atomic<std::uint64_t> issued_ = 0;  // sequence number of the last work that entered
  std::atomic<std::uint64_t> taken_ = 0;   // and of the last that was taken out
};

class Executor final : public WorkDriver, public std::enable_shared_from_this<Executor> {
 public:
  Executor(std::unique_ptr<Engine> engine, EngineOptions options);
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

  const EngineOptions options_;
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
