// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory layout behind RankChannels. Private to launch/.
//
// the whole:  | header | rank 0 | rank 1 | ...
// a rank:     | slot | step records | bucket records | replica records | trace records | result |
// result |
//
// Every part starts at a multiple of 64 bytes. Pages that are never written cost nothing, so
// capacities may be generous. A rank's area describes itself and holds no address, so it can be
// sent as bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>

#include "base/math.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::launch {

inline constexpr std::uint64_t kMagic = 0x3663'6e68'6370'6464;  // "ddpchnc6", little endian
inline constexpr std::size_t kAlignBytes = 64;
inline constexpr std::size_t kResultCopies = 2;  // the one that readers see, the one being written

struct ChannelHeader {
  std::uint64_t magic = 0;
  ChannelLayout layout;
};

// A CallMark in two words, which are written one after the other.
struct PackedCall {
  std::atomic<std::uint64_t> what{0};  // number, bucket + 1 (16 bits), kind (8 bits)
  std::atomic<std::uint64_t> with{0};  // bytes, peer + 1 (16 bits)
};

// One writer, any number of readers. A reader may see single fields of different moments.
struct alignas(kAlignBytes) RankSlot {
  std::uint64_t step_capacity = 0;
  std::uint64_t bucket_capacity = 0;
  std::uint64_t replica_capacity = 0;
  std::uint64_t trace_capacity = 0;
  std::uint64_t result_capacity = 0;
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
  std::atomic<std::uint64_t> step_count{0};    // appended, dropped ones included
  std::atomic<std::uint64_t> bucket_count{0};  // likewise
  std::atomic<std::uint64_t> replica_count{0};
  std::atomic<std::uint64_t> trace_count{0};  // likewise
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

inline std::size_t header_bytes() { return aligned(sizeof(ChannelHeader)); }
inline std::size_t steps_offset() { return aligned(sizeof(RankSlot)); }
inline std::size_t buckets_offset(const RankSlot& slot) {
  return steps_offset() + aligned(slot.step_capacity * sizeof(StepRecord));
}
inline std::size_t replicas_offset(const RankSlot& slot) {
  return buckets_offset(slot) + aligned(slot.bucket_capacity * sizeof(BucketRecord));
}
inline std::size_t trace_offset(const RankSlot& slot) {
  return replicas_offset(slot) + aligned(slot.replica_capacity * sizeof(ReplicaRecord));
}
inline std::size_t result_offset(const RankSlot& slot, std::uint64_t version) {
  return trace_offset(slot) + aligned(slot.trace_capacity * sizeof(TraceRecord)) +
         version % kResultCopies * aligned(slot.result_capacity);
}

inline RankSlot& slot_of(std::byte* area) {
  return *std::launder(reinterpret_cast<RankSlot*>(area));
}
inline StepRecord* steps_of(std::byte* area) {
  return reinterpret_cast<StepRecord*>(area + steps_offset());
}
inline BucketRecord* buckets_of(std::byte* area) {
  return reinterpret_cast<BucketRecord*>(area + buckets_offset(slot_of(area)));
}
inline ReplicaRecord* replicas_of(std::byte* area) {
  return reinterpret_cast<ReplicaRecord*>(area + replicas_offset(slot_of(area)));
}
inline TraceRecord* trace_of(std::byte* area) {
  return reinterpret_cast<TraceRecord*>(area + trace_offset(slot_of(area)));
}

// The result in a rank's area: the rank writes a version while others, also threads of its own
// process, may read another. Private to launch/.

struct RankResult {
  std::uint64_t version = 0;  // 0: there is none
  std::string text;
};

// By the rank alone. REQUIRES: the area has room for it.
void write_result(std::byte* area, std::string_view text);
// The result is the newest version, and never parts of two. The call waits for nobody, and it reads
// at most `capacity` bytes.
RankResult read_result(std::byte* area, std::uint64_t capacity);

// Bytes that another thread may be writing, each word of eight of one moment. REQUIRES: a multiple
// of eight of them at such an address.
std::string copy_words(std::byte* from, std::size_t bytes);

}  // namespace ddpbench::launch
