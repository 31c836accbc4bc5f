// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/memory_needs.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"

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

void allocate(Device& device, std::span<const PlannedBuffer> buffers) {
  for (const PlannedBuffer& planned : buffers) {
    if (planned.bytes == 0) continue;
    *planned.buffer = device.allocate(planned.bytes, planned.category, planned.sharing);
  }
}

void fill_with_zeros(Device& device, Stream& stream, const Buffer& buffer) {
  // In pieces: as many zeros as the state of an optimizer has would raise the process's peak
  // memory.
  constexpr std::size_t kPieceBytes = kMiB;
  std::vector<std::byte> zeros(std::min(kPieceBytes, buffer.bytes()));
  for (std::size_t done = 0; done < buffer.bytes(); done += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, buffer.bytes() - done);
    device.copy(stream, buffer.view().slice(done, bytes), {zeros.data(), bytes});
  }
  stream.synchronize();
}

MemoryNeeds::MemoryNeeds(const Device& device)
    : device_(device), bytes_(device.memory().live_bytes) {}

void MemoryNeeds::add(std::span<const PlannedBuffer> buffers) {
  for (const PlannedBuffer& planned : buffers) {
    if (planned.bytes == 0) continue;
    const std::size_t taken = device_.allocation_bytes(planned.bytes, planned.sharing);
    bytes_[static_cast<std::size_t>(planned.category)] += taken;
    added_ += taken;
  }
}

MemoryClaim MemoryNeeds::claim(std::string what, std::string advice) const {
  return {.pool = device_.memory_pool(),
          .what = std::move(what),
          .device = device_.name(),
          .advice = std::move(advice),
          .shared_advice = {},
          .bytes = added_,
          .free_bytes = device_.free_bytes(),
          .by_category = bytes_};
}

void check_claims(std::span<const MemoryClaim> claims) {
  std::size_t together = 0;
  std::optional<std::size_t> free_bytes;
  for (const MemoryClaim& claim : claims) {
    together += claim.bytes;
    if (claim.free_bytes) {
      free_bytes = std::min(*claim.free_bytes, free_bytes.value_or(*claim.free_bytes));
    }
  }
  if (!free_bytes || together <= *free_bytes) return;
  const MemoryClaim& most = *std::ranges::max_element(claims, {}, &MemoryClaim::bytes);
  const std::size_t others = claims.size() - 1;
  std::string beside;
  if (others > 0) {
    beside = fmt::format(", and {} of the run {} bytes of the same memory",
                         counted(others, "other device"), together - most.bytes);
  }
  throw ConfigError(fmt::format("{} needs {} more bytes of {}{}, which has {} free; {}{}{}",
                                most.what, most.bytes, most.device, beside, *free_bytes,
                                most.advice, others > 0 ? most.shared_advice : std::string(),
                                memory_table(most.by_category)));
}

}  // namespace ddpbench
