// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See work_queue.h. This file: issuing, waiting, and handing the role from thread to thread.
#include "parallel/comm/shm/queue/work_queue.h"

#include <sched.h>

#include <algorithm>

#include "base/error.h"

namespace ddpbench::comm {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Executing ends when the role goes out of scope, whatever is thrown.
class WorkQueue::Role {
 public:
  explicit Role(WorkQueue& queue) : queue_(queue), held_(queue.try_role()) {}
  ~Role() {
    if (held_) queue_.release_role();
  }
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  WorkQueue& queue_;
  const bool held_;
};

std::shared_ptr<RingWork> WorkQueue::issue(const Operation& operation, Start start) {
  if (peers_.aborted()) peers_.throw_aborted(&operation);
  auto work = std::allocate_shared<RingWork>(PoolAllocator<RingWork>(pool_), shared_from_this(),
                                             operation, start);
  if (group_depth_ > 0) {
    group_.push_back(work);
    return work;
  }
  enqueue(work);
  if (start == Start::now) start_background(work->sequence());
  return work;
}

// Messages first: a collective of the group then progresses them while it waits.
void WorkQueue::group_end() {
  ensure(group_depth_ > 0, "group_end without group_start");
  if (--group_depth_ > 0) return;
  std::uint64_t last = 0;
  for (const bool messages : {true, false}) {
    for (const std::shared_ptr<RingWork>& work : group_) {
      if (work->operation().is_message() != messages) continue;
      enqueue(work);
      if (work->start() == Start::now) last = work->sequence();
    }
  }
  group_.clear();
  if (last > 0) start_background(last);
}

void WorkQueue::enqueue(const std::shared_ptr<RingWork>& work) {
  const std::lock_guard lock(queue_mutex_);
  // Whatever was executed leaves the front; without this a queue that is never empty would grow.
  if (head_ > 0 && (head_ == queue_.size() || queue_.size() == queue_.capacity())) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  work->set_sequence(issued_.load(std::memory_order_relaxed) + 1);
  queue_.push_back(work);
  issued_.store(work->sequence(), std::memory_order_seq_cst);
}

void WorkQueue::start_background(std::uint64_t last) {
  std::uint64_t before = background_up_to_.load(std::memory_order_relaxed);
  while (before < last && !background_up_to_.compare_exchange_weak(before, last)) {
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  peers_.ring();  // it may be waiting for a message
  wake_thread();
}

std::shared_ptr<RingWork> WorkQueue::pop(std::uint64_t last) {
  const std::lock_guard lock(queue_mutex_);
  if (head_ == queue_.size()) return nullptr;
  std::shared_ptr<RingWork>& front = queue_[head_];
  // Messages may start early; they hinder nobody.
  if (front->sequence() > last && !front->operation().is_message()) return nullptr;
  ++head_;
  started_.store(front->sequence(), std::memory_order_seq_cst);
  return std::move(front);
}

void WorkQueue::complete(RingWork& work, Deadline deadline) {
  ensure(work.finished() || work.sequence() != 0,
         "a work of a group that is still open is awaited");
  while (!work.finished()) {
    {
      const Role role(*this);
      if (role) {
        drive(work, deadline);
        continue;
      }
    }
    // Another thread executes. Between works it gives way to a claimant.
    claimants_.fetch_add(1, std::memory_order_seq_cst);
    peers_.ring();
    wait_locally(deadline,
                 [&] { return work.finished() || !role_taken_.load(std::memory_order_seq_cst); });
    claimants_.fetch_sub(1, std::memory_order_seq_cst);
    if (background_wanted()) wake_thread();  // it may have given way to a claim that is gone
    if (!work.finished() && Clock::now() >= deadline) {
      throw CommTimeout(peers_.prefix(&work.operation()) +
                            "deadline passed while another thread executes it or one before it",
                        operation_name(&work.operation()));
    }
  }
  work.rethrow();
}

bool WorkQueue::test(RingWork& work) {
  ensure(work.finished() || work.sequence() != 0, "a work of a group that is still open is tested");
  if (!work.finished()) {
    const Role role(*this);
    if (role) run_messages();
  }
  const bool queued = work.sequence() > started_.load(std::memory_order_seq_cst);
  if (!work.finished() && queued) start_background(work.sequence());
  if (!work.finished()) return false;
  work.rethrow();
  return true;
}

void WorkQueue::await_change(std::uint32_t seen, Deadline deadline) {
  const auto changed = [&] { return changes() != seen || Clock::now() >= deadline; };
  // What waits for the communication thread must not wait for this one.
  if (!queue_waits()) {
    const Role role(*this);
    if (role) return drive_messages(deadline, changed);
  }
  wait_locally(deadline, changed);
}

void WorkQueue::change_memory(const std::function<void(PeerMemory&)>& change) {
  const Deadline deadline = deadline_after(timeout_s());
  while (Clock::now() < deadline) {
    const Role role(*this);
    if (!role) {
      wait_locally(deadline, [&] { return !role_taken_.load(std::memory_order_seq_cst); });
      continue;
    }
    return change(memory_);
  }
  throw CommTimeout(peers_.prefix(nullptr) + "operations are still running; memory cannot change");
}

void WorkQueue::abort(const std::string& reason) noexcept {
  peers_.abort(reason);
  announce();
}

bool WorkQueue::try_role() noexcept {
  bool expected = false;
  return role_taken_.compare_exchange_strong(expected, true, std::memory_order_seq_cst);
}

void WorkQueue::release_role() noexcept {
  role_taken_.store(false, std::memory_order_seq_cst);
  announce();
  if (background_wanted()) wake_thread();
}

void WorkQueue::announce() noexcept {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  if (local_sleepers_.load(std::memory_order_seq_cst) > 0) {
    futex_wake_all(changes_, FutexScope::process);
  }
}

// Waits for another thread of this rank. That often shares this core, so there is no spinning.
template <typename Predicate>
void WorkQueue::wait_locally(Deadline deadline, Predicate&& predicate) {
  constexpr int kYields = 4;
  for (int i = 0; i < kYields; ++i) {
    if (predicate()) return;
    ::sched_yield();
  }
  while (true) {
    local_sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = changes();
    const bool done = predicate() || Clock::now() >= deadline;
    if (!done) futex_wait(changes_, seen, deadline, FutexScope::process);
    local_sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    if (done) return;
  }
}

}  // namespace ddpbench::comm
