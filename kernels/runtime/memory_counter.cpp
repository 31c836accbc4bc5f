// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Live and peak bytes of a device by category.
#include "kernels/runtime/memory_counter.h"

#include <algorithm>

namespace ddpbench {

MemoryUsage MemoryCounter::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

void MemoryCounter::add(MemoryCategory category, std::size_t bytes) noexcept {
  const auto i = static_cast<std::size_t>(category);
  const std::lock_guard lock(mutex_);
  usage_.live_bytes[i] += bytes;
  usage_.peak_bytes[i] = std::max(usage_.peak_bytes[i], usage_.live_bytes[i]);
  usage_.total_live_bytes += bytes;
  usage_.total_peak_bytes = std::max(usage_.total_peak_bytes, usage_.total_live_bytes);
}

void MemoryCounter::remove(MemoryCategory category, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  usage_.live_bytes[static_cast<std::size_t>(category)] -= bytes;
  usage_.total_live_bytes -= bytes;
}

}  // namespace ddpbench
