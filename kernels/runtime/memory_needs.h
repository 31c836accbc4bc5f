// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MemoryNeeds: the bytes that will be allocated on a device, added up by category beforehand. A
// plan that cannot fit is refused as a whole, with a table, and not by the first allocation that
// fails. A class lists its buffers once, as PlannedBuffers: it adds that list to the needs and
// allocates from the same list.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "kernels/runtime/device.h"

namespace ddpbench {

using CategoryBytes = std::array<std::size_t, kMemoryCategoryCount>;

// The table "\n  weights              1686592" and so on: one line for each category that has
// bytes, and their sum last.
std::string memory_table(const CategoryBytes& bytes);

// The bytes that one device will take of a memory. It may share that memory with other devices of
// the run (Device::memory_pool).
struct MemoryClaim {
  std::string pool;           // empty: the device has its memory alone
  std::string what;           // "ddp on 2 devices"
  std::string device;         // its name
  std::string advice;         // "use ..."
  std::string shared_advice;  // ", or ...": used where others claim the same memory
  std::size_t bytes = 0;
  std::optional<std::size_t> free_bytes{};  // as the device saw it; null: it cannot tell
  CategoryBytes by_category{};              // what the device holds already included
};

// Throws ConfigError when less memory is free than `claims` add up to: "<what> needs ..., <advice>"
// and the table of the largest claim. Where the free memory is unknown, only the allocation can
// fail. REQUIRES: at least one claim, all of one memory, in the same order at each check.
void check_claims(std::span<const MemoryClaim> claims);

// A buffer that its owner will allocate.
struct PlannedBuffer {
  Buffer* buffer;  // set by allocate()
  MemoryCategory category;
  std::size_t bytes;  // 0: it stays empty
  Sharing sharing = Sharing::process_private;
};

// Allocates each of `buffers`. Throws DeviceError, as Device::allocate does.
void allocate(Device& device, std::span<const PlannedBuffer> buffers);

// Zeroes memory of `device` by a copy on `stream`, since the host may not reach it, and waits for
// the copy.
void fill_with_zeros(Device& device, Stream& stream, const Buffer& buffer);

class MemoryNeeds {
 public:
  // `device` must outlive this object. The bytes that its counters show are the first needs.
  explicit MemoryNeeds(const Device& device);

  const Device& device() const { return device_; }
  void add(std::span<const PlannedBuffer> buffers);
  std::size_t added_bytes() const { return added_; }
  // Includes what the device holds already.
  const CategoryBytes& by_category() const { return bytes_; }

  // The claim holds the free bytes that the device reports now. `advice` says what to change when
  // they are too few.
  MemoryClaim claim(std::string what, std::string advice) const;

 private:
  const Device& device_;
  CategoryBytes bytes_;
  std::size_t added_ = 0;
};

}  // namespace ddpbench
