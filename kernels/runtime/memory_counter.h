// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the live bytes of a device and their peaks, by category. Thread-safe: reports read while
// the leading thread allocates, and any thread may free a buffer.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>

#include "kernels/runtime/buffer.h"

namespace ddpbench {

class MemoryCounter {
 public:
  MemoryUsage usage() const {
    const std::lock_guard lock(mutex_);
    return usage_;
  }
  // Peaks begin anew at what lives now.
  void reset_peaks() {
    const std::lock_guard lock(mutex_);
    usage_.peak_bytes = usage_.live_bytes;
    usage_.total_peak_bytes = usage_.total_live_bytes;
  }

 private:
  friend class CountedBytes;
  void add(MemoryCategory category, std::size_t bytes) noexcept {
    const auto i = static_cast<std::size_t>(category);
    const std::lock_guard lock(mutex_);
    usage_.live_bytes[i] += bytes;
    usage_.peak_bytes[i] = std::max(usage_.peak_bytes[i], usage_.live_bytes[i]);
    usage_.total_live_bytes += bytes;
    usage_.total_peak_bytes = std::max(usage_.total_peak_bytes, usage_.total_live_bytes);
  }
  void remove(MemoryCategory category, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    usage_.live_bytes[static_cast<std::size_t>(category)] -= bytes;
    usage_.total_live_bytes -= bytes;
  }

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

// Memory that its owner frees.
class OwnedMemory final : public Allocation {
 public:
  // Without `counted` the memory counts nowhere. `handle` is what export_handle() returns.
  OwnedMemory(BufferView view, std::shared_ptr<void> owner,
              std::unique_ptr<CountedBytes> counted = nullptr, std::string handle = {})
      : view_(view),
        handle_(std::move(handle)),
        counted_(std::move(counted)),
        owner_(std::move(owner)) {}
  BufferView view() const noexcept override { return view_; }
  std::string export_handle() const override { return handle_; }

 private:
  BufferView view_;
  std::string handle_;
  std::unique_ptr<CountedBytes> counted_;
  std::shared_ptr<void> owner_;
};

}  // namespace ddpbench
