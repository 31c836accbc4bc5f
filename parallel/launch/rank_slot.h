// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory layout behind RankChannels. Private to launch/.
//
// the whole:  | rank 0 | rank 1 | ...
// a rank:     | slot | step records | bucket records | replica records | trace records | result |
// result |
//
// Every part starts at a multiple of 64 bytes. Pages that are never written cost nothing. A rank's
// area describes itself and holds no address, so it can be sent as bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/math.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::launch {

inline constexpr std::uint64_t kMagic = 0x3863'6e68'6370'6464;  // "ddpchnc8", little endian
inline constexpr std::size_t kAlignBytes = 64;
inline constexpr std::size_t kResultCopies = 2;  // the one that readers see, the one being written

// The kinds of records, in the order in which they lie in an area.
inline constexpr std::size_t kRecordKinds = 4;
inline constexpr std::array<std::size_t, kRecordKinds> kRecordBytes = {
    sizeof(StepRecord), sizeof(BucketRecord), sizeof(ReplicaRecord), sizeof(TraceRecord)};
inline std::array<std::size_t, kRecordKinds> capacities(const ChannelLayout& layout) {
  return {layout.step_capacity, layout.bucket_capacity, layout.replica_capacity,
          layout.trace_capacity};
}
template <typename Record>
inline constexpr std::size_t kKindOf = std::is_same_v<Record, StepRecord>      ? 0
                                       : std::is_same_v<Record, BucketRecord>  ? 1
                                       : std::is_same_v<Record, ReplicaRecord> ? 2
                                                                               : 3;

// A CallMark in two words, which are written one after the other.
struct PackedCall {
  std::atomic<std::uint64_t> what{0};  // number, bucket + 1 (16 bits), kind (8 bits)
  std::atomic<std::uint64_t> with{0};  // bytes, peer + 1 (16 bits)
};

// One writer, any number of readers. A reader may see single fields of different moments.
struct alignas(kAlignBytes) RankSlot {
  std::uint64_t magic = kMagic;
  ChannelLayout layout;
  std::atomic<RankState> state{RankState::starting};
  std::atomic<std::uint32_t> epoch{0};
  std::atomic<std::uint64_t> step{0};
  std::atomic<std::uint32_t> phase{kPhaseCount};
  std::atomic<std::uint64_t> phase_marks{0};
  std::atomic<std::uint64_t> bucket{0};
  std::atomic<std::uint64_t> collective{0};
  PackedCall completed, pending;
  std::atomic<std::uint64_t> heartbeat{0};
  std::atomic<double> ready_s{0};
  std::atomic<double> loss{0};
  std::atomic<std::uint32_t> has_loss{0};
  std::atomic<double> accuracy{0};
  std::atomic<std::uint32_t> has_accuracy{0};
  std::array<std::atomic<std::uint64_t>, kRecordKinds> counts{};  // appended, dropped ones included
  // Result version v lies in copy v % 2; version 0 is "none". A rank that dies while it writes
  // version v leaves v - 1 readable.
  std::atomic<std::uint64_t> result_version{0};
  std::array<std::atomic<std::uint64_t>, kResultCopies> result_bytes{};
  std::atomic<std::uint32_t> has_error{0};  // published after the fields below
  std::int32_t exit_code = 0;
  double error_s = 0;
  std::array<char, 32> error_kind{};
  std::array<char, 64> error_operation{};
  std::array<char, 4096> error_message{};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<double>::is_always_lock_free,
              "locks of the C++ library do not work across processes");

constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignBytes); }

// Where the records of a kind begin; of kRecordKinds: the results.
inline std::size_t records_offset(const ChannelLayout& layout, std::size_t kind) {
  std::size_t offset = aligned(sizeof(RankSlot));
  for (std::size_t k = 0; k < kind; ++k) {
    offset += aligned(capacities(layout)[k] * kRecordBytes[k]);
  }
  return offset;
}
inline std::size_t result_offset(const ChannelLayout& layout, std::uint64_t version) {
  return records_offset(layout, kRecordKinds) +
         version % kResultCopies * aligned(layout.result_capacity);
}

inline RankSlot& slot_of(std::byte* area) {
  return *std::launder(reinterpret_cast<RankSlot*>(area));
}
template <typename Record>
Record* records_in(std::byte* area, const ChannelLayout& layout) {
  return reinterpret_cast<Record*>(area + records_offset(layout, kKindOf<Record>));
}

struct RankResult {
  std::uint64_t version = 0;  // 0: there is none
  std::string text;
};

// By the rank alone; others may read meanwhile. REQUIRES: the area has room for it.
void write_result(std::byte* area, std::string_view text);
// Returns the newest version of the result, never parts of two. The call waits for nobody.
RankResult read_result(std::byte* area, const ChannelLayout& layout);

// Bytes that another thread may be writing, each word of eight of one moment. REQUIRES: a multiple
// of eight of them at such an address.
std::string copy_words(std::byte* from, std::size_t bytes);

}  // namespace ddpbench::launch
