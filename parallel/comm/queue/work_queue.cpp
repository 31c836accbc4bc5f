// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/queue/work_queue.h"

#include "base/error.h"

namespace ddpbench::comm {

std::uint64_t WorkQueue::add(const std::shared_ptr<QueuedWork>& work) {
  if (group_depth_ > 0) {
    group_.push_back(work);
    return 0;
  }
  enter(work);
  return work->start() == Start::now ? work->sequence() : 0;
}

std::uint64_t WorkQueue::group_end() {
  ensure(group_depth_ > 0, "group_end without group_start");
  if (--group_depth_ > 0) return 0;
  std::uint64_t last = 0;
  for (const bool messages : {true, false}) {
    for (const std::shared_ptr<QueuedWork>& work : group_) {
      if (work->operation().is_message() != messages) continue;
      enter(work);
      if (work->start() == Start::now) last = work->sequence();
    }
  }
  group_.clear();
  return last;
}

void WorkQueue::enter(const std::shared_ptr<QueuedWork>& work) {
  const std::lock_guard lock(mutex_);
  // Works that were taken out leave the front. Else a queue that is never empty would grow.
  if (head_ > 0 && (head_ == works_.size() || works_.size() == works_.capacity())) {
    works_.erase(works_.begin(), works_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
  work->set_sequence(issued_.load(std::memory_order_relaxed) + 1);
  works_.push_back(work);
  issued_.store(work->sequence(), std::memory_order_seq_cst);
}

std::shared_ptr<QueuedWork> WorkQueue::take(std::uint64_t last) {
  const std::lock_guard lock(mutex_);
  if (head_ == works_.size()) return nullptr;
  std::shared_ptr<QueuedWork>& front = works_[head_];
  if (front->sequence() > last && !front->operation().is_message()) return nullptr;
  ++head_;
  taken_.store(front->sequence(), std::memory_order_seq_cst);
  return std::move(front);
}

std::vector<std::shared_ptr<QueuedWork>> WorkQueue::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<QueuedWork>> rest(works_.begin() + static_cast<std::ptrdiff_t>(head_),
                                                works_.end());
  works_.clear();
  head_ = 0;
  taken_.store(issued_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  return rest;
}

}  // namespace ddpbench::comm
