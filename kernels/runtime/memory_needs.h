// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MemoryNeeds: what will be allocated on a device, added up by category before any of it is, so
// that a plan that cannot fit is refused as a whole, with a table, and not by the allocation that
// happens to be the first to fail. A class lists its buffers once, as PlannedBuffers: from the same
// list it adds to the needs and allocates.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "kernels/runtime/device.h"

namespace ddpbench {

using CategoryBytes = std::array<std::size_t, kMemoryCategoryCount>;

// "\n  weights              1686592" and so on: a line for each category that has bytes, and their
// sum last.
std::string memory_table(const CategoryBytes& bytes);

// What one device will take of a memory that it may have together with others of the run
// (Device::memory_pool).
struct MemoryClaim {
  std::string pool;           // empty: the device has its memory alone
  std::string what;           // "ddp on 2 devices"
  std::string device;         // its name
  std::string advice;         // "use ..."
  std::string shared_advice;  // ", or ...": where others claim the same memory
  std::size_t bytes = 0;
  std::optional<std::size_t> free_bytes{};  // as the device saw it; null: it cannot tell
  CategoryBytes by_category{};              // with what the device holds already
};

// `claims`, at least one, of one memory, in the same order at each check. Throws
// ConfigError when less is free than they come to: "<what> needs ..., <advice>" and the table of
// the one that needs most. Memory of which nothing is known refuses while allocating.
void check_claims(std::span<const MemoryClaim> claims);

// A buffer that its owner will have.
struct PlannedBuffer {
  Buffer* buffer;  // set by allocate()
  MemoryCategory category;
  std::size_t bytes;  // 0: it stays empty
  Sharing sharing = Sharing::process_private;
};

// Allocates each of `buffers`. Throws DeviceError, as Device::allocate does.
void allocate(Device& device, std::span<const PlannedBuffer> buffers);

// Zeroes memory of `device` through its own copy, since the host may not reach it, and waits for
// that.
void fill_with_zeros(Device& device, Stream& stream, const Buffer& buffer);

class MemoryNeeds {
 public:
  // `device`, which outlives this, holds already what its counters say.
  explicit MemoryNeeds(const Device& device);

  const Device& device() const { return device_; }
  void add(std::span<const PlannedBuffer> buffers);
  // Memory that something else will allocate: an operation for itself, or a step of preparation.
  void add(MemoryCategory category, std::size_t bytes, Sharing sharing = Sharing::process_private);
  std::size_t added_bytes() const { return added_; }
  // With what the device holds already.
  const CategoryBytes& by_category() const { return bytes_; }

  // With what the device says now that it has free. `advice` on what to change when that is too
  // little.
  MemoryClaim claim(std::string what, std::string advice) const;
  // Throws ConfigError when the device has less free than it alone needs; see check_claims.
  void check(const std::string& what, const std::string& advice) const;

 private:
  const Device& device_;
  CategoryBytes bytes_;
  std::size_t added_ = 0;
};

}  // namespace ddpbench
