// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WorkQueue: the works of one rank that were issued and have not begun, in the order of issue.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/comm/queue/queued_work.h"

namespace ddpbench::comm {

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

}  // namespace ddpbench::comm
