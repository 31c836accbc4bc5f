// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A message is a sequence of parts: where in the area, how many bytes, the bytes.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_slot.h"

namespace ddpbench::launch {
namespace {

constexpr std::size_t kMostPartBytes = 4 * kMiB;

struct PartHeader {
  std::uint64_t offset = 0, bytes = 0;
};

void append_part(std::string& message, std::size_t offset, const void* data, std::size_t bytes) {
  const PartHeader header{offset, bytes};
  message.append(reinterpret_cast<const char*>(&header), sizeof header);
  message.append(static_cast<const char*>(data), bytes);
}

// Cuts bytes that belong at `offset` of the area into messages.
void append_range(std::vector<std::string>& messages, std::size_t offset,
                  std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kMostPartBytes);
    if (messages.back().size() + part > kMostPartBytes) messages.emplace_back();
    append_part(messages.back(), offset, bytes.data(), part);
    offset += part;
    bytes = bytes.subspan(part);
  }
}

void put(std::string& bytes, std::size_t offset, std::uint64_t value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace

std::vector<std::string> RankMirror::take() {
  RankSlot& slot = slot_of(area_.data());
  std::vector<std::string> messages(1);
  // In this order: what the rank wrote before its error or result is then among the records.
  const bool failed = slot.has_error.load(std::memory_order_acquire) != 0;
  const ChannelLayout& layout = slot.layout;
  const RankResult result = read_result(area_.data(), layout);
  std::array<std::uint64_t, kRecordKinds> counts{};
  for (std::size_t k = 0; k < kRecordKinds; ++k) {
    counts[k] = slot.counts[k].load(std::memory_order_acquire);
    const std::uint64_t last = std::min<std::uint64_t>(counts[k], capacities(layout)[k]);
    const std::size_t begin = records_offset(layout, k) + sent_[k] * kRecordBytes[k];
    append_range(messages, begin, area_.subspan(begin, (last - sent_[k]) * kRecordBytes[k]));
    sent_[k] = last;
  }
  if (result.version != result_version_) {
    result_version_ = result.version;
    append_range(messages, result_offset(layout, ++mirrored_version_),
                 std::as_bytes(std::span(result.text)));
  }
  // The error is most of the slot, and not to be read before it is whole.
  const std::size_t slot_bytes = failed ? sizeof(RankSlot) : offsetof(RankSlot, has_error);
  static_assert(offsetof(RankSlot, has_error) % sizeof(std::uint64_t) == 0, "whole words");
  std::string status = copy_words(area_.data(), slot_bytes);
  std::memcpy(status.data() + offsetof(RankSlot, counts), counts.data(), sizeof counts);
  put(status, offsetof(RankSlot, result_version), mirrored_version_);
  put(status,
      offsetof(RankSlot, result_bytes) + mirrored_version_ % kResultCopies * sizeof(std::uint64_t),
      result.text.size());
  append_part(messages.back(), 0, status.data(), status.size());
  return messages;
}

void apply_mirrored(std::string_view message, std::span<std::byte> area) {
  while (!message.empty()) {
    PartHeader header;
    if (message.size() >= sizeof header) {
      std::memcpy(&header, message.data(), sizeof header);
      message.remove_prefix(sizeof header);
    } else {
      header.bytes = message.size() + 1;
    }
    const bool fits = header.bytes <= message.size() && header.offset <= area.size() &&
                      header.bytes <= area.size() - header.offset;
    if (!fits) throw CommError("the records of a rank on another host do not fit their place");
    std::memcpy(area.data() + header.offset, message.data(), header.bytes);
    message.remove_prefix(header.bytes);
  }
}

}  // namespace ddpbench::launch
