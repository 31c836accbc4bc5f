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

 private:
  mutable std::mutex mutex_;
  MemoryUsage usage_;
};

// An owner of what `owned` owns, which counts as `bytes` for as long as it lives. It shares the
// counter, so that a buffer may outlive its device.
inline std::shared_ptr<void> counted_memory(const std::shared_ptr<MemoryCounter>& counter,
                                            MemoryCategory category, std::size_t bytes,
                                            const std::shared_ptr<void>& owned) {
  counter->add(category, bytes);
  return {owned.get(),
          [counter, category, bytes, owned](void*) { counter->remove(category, bytes); }};
}

}  // namespace ddpbench
