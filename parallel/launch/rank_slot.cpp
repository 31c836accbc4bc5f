// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/rank_slot.h"

#include <algorithm>
#include <cstring>

namespace ddpbench::launch {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
static_assert(kAlignBytes % kWord == 0, "results begin and end at words");

std::atomic_ref<std::uint64_t> word_at(std::byte* area, std::size_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(area + offset));
}

// A slow reader may still copy an old version from this place: it looks at the version afterwards,
// and reads again.
void store_words(std::byte* to, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(kWord, text.size() - at));
    word_at(to, at).store(word, std::memory_order_relaxed);
  }
}

}  // namespace

std::string copy_words(std::byte* from, std::size_t bytes) {
  std::string copy(bytes, '\0');
  for (std::size_t at = 0; at < bytes; at += kWord) {
    const std::uint64_t word = word_at(from, at).load(std::memory_order_relaxed);
    std::memcpy(copy.data() + at, &word, kWord);
  }
  return copy;
}

void write_result(std::byte* area, std::string_view text) {
  RankSlot& slot = slot_of(area);
  const std::uint64_t version = slot.result_version.load(std::memory_order_relaxed) + 1;
  store_words(area + result_offset(slot.layout, version), text);
  slot.result_bytes[version % kResultCopies].store(text.size(), std::memory_order_relaxed);
  // Exchanged, so that no byte of the next version can be seen before this number.
  slot.result_version.exchange(version, std::memory_order_acq_rel);
}

RankResult read_result(std::byte* area, const ChannelLayout& layout) {
  RankSlot& slot = slot_of(area);
  for (;;) {
    const std::uint64_t version = slot.result_version.load(std::memory_order_acquire);
    if (version == 0) return {};
    const std::uint64_t bytes = std::min<std::uint64_t>(
        slot.result_bytes[version % kResultCopies].load(std::memory_order_relaxed),
        layout.result_capacity);
    std::string text = copy_words(area + result_offset(layout, version), round_up(bytes, kWord));
    text.resize(bytes);
    // The writer touches this copy again only after it has published the next version. Adding
    // nothing, with release order, keeps the reads above before the look at the version. (A fence
    // would do that too, but ThreadSanitizer does not know fences.)
    if (slot.result_version.fetch_add(0, std::memory_order_acq_rel) == version) {
      return {version, std::move(text)};
    }
  }
}

}  // namespace ddpbench::launch
