// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MemoryNeeds: what will be allocated on a device, added up by category before any of it is, so
// that a plan that cannot fit is refused as a whole, with a table, and not by whichever allocation
// happens to be the first to fail.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "kernels/runtime/device.h"

namespace ddpbench {

using CategoryBytes = std::array<std::size_t, kMemoryCategoryCount>;

// "\n  weights              1686592" and so on: a line for each category that has bytes, and their
// sum last.
std::string memory_table(const CategoryBytes& bytes);

class MemoryNeeds {
 public:
  // `device`, which outlives this, holds already what its counters say.
  explicit MemoryNeeds(const Device& device);

  const Device& device() const { return device_; }
  // A buffer that allocate() will be asked for; one of 0 bytes will not be.
  void add(MemoryCategory category, std::size_t bytes, Sharing sharing = Sharing::process_private);
  std::size_t added_bytes() const { return added_; }
  // With what the device holds already.
  const CategoryBytes& by_category() const { return bytes_; }

  // Throws ConfigError when the device has less than added_bytes() free: "<what> needs ...,
  // <advice>" and the table. A device that cannot tell what it has refuses while allocating.
  void check(const std::string& what, const std::string& advice) const;

 private:
  const Device& device_;
  CategoryBytes bytes_;
  std::size_t added_ = 0;
};

}  // namespace ddpbench
