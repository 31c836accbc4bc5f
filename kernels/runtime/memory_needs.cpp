// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/memory_needs.h"

#include <numeric>

#include "kernels/runtime/error.h"

namespace ddpbench {

std::string memory_table(const CategoryBytes& bytes) {
  std::string table;
  const auto line = [&table](std::string_view name, std::size_t value) {
    table += fmt::format("\n  {:<13} {:>15}", name, value);
  };
  for (std::size_t c = 0; c < bytes.size(); ++c) {
    if (bytes[c] > 0) line(to_string(static_cast<MemoryCategory>(c)), bytes[c]);
  }
  line("sum", std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
  return table;
}

MemoryNeeds::MemoryNeeds(const Device& device)
    : device_(device), bytes_(device.memory().live_bytes) {}

void MemoryNeeds::add(MemoryCategory category, std::size_t bytes, Sharing sharing) {
  if (bytes == 0) return;
  const std::size_t taken = device_.allocation_bytes(bytes, sharing);
  bytes_[static_cast<std::size_t>(category)] += taken;
  added_ += taken;
}

void MemoryNeeds::check(const std::string& what, const std::string& advice) const {
  const std::optional<std::size_t> free_bytes = device_.free_bytes();
  if (!free_bytes || added_ <= *free_bytes) return;
  throw ConfigError(fmt::format("{} needs {} more bytes of {}, which has {} free; {}{}", what,
                                added_, device_.name(), *free_bytes, advice, memory_table(bytes_)));
}

}  // namespace ddpbench
