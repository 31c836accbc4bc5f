// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the live bytes of a device and their peaks, by category. Thread-safe: reports read while
// the leading thread allocates, and any thread may free a buffer.
#pragma once

#include <memory>
#include <mutex>

#include "kernels/runtime/buffer.h"

namespace ddpbench {

class MemoryCounter {
 public:
  MemoryUsage usage() const;

 private:
  friend class CountedBytes;
  void add(MemoryCategory category, std::size_t bytes) noexcept;
  void remove(MemoryCategory category, std::size_t bytes) noexcept;

  mutable std::mutex mutex_;
  MemoryUsage usage_;
};

// Counts its bytes for as long as it lives. It shares the counter, so that a buffer may outlive its
// device.
class CountedBytes {
 public:
  CountedBytes(std::shared_ptr<MemoryCounter> counter, MemoryCategory category, std::size_t bytes)
      : counter_(std::move(counter)), category_(category), bytes_(bytes) {
    counter_->add(category_, bytes_);
  }
  ~CountedBytes() { counter_->remove(category_, bytes_); }
  CountedBytes(const CountedBytes&) = delete;
  CountedBytes& operator=(const CountedBytes&) = delete;

 private:
  std::shared_ptr<MemoryCounter> counter_;
  MemoryCategory category_;
  std::size_t bytes_;
};

}  // namespace ddpbench
