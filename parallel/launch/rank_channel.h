// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankChannels: the memory through which ranks report their state to their supervisor.
//
// It is one shared mapping made by the supervisor, or by an agent whose supervisor mirrors it. It
// outlives its ranks, so a killed run still gives a partial report. Each rank has one writer.
// Readers may look at any time: counts are published after the records (release/acquire).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/shared_memory.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::launch {

// Writes for one rank. It is cheap: plain atomic stores, no system calls. One thread uses it.
class RankWriter {
 public:
  void state(RankState state);
  void begin_step(std::uint32_t epoch, std::uint64_t step);
  void phase(std::uint32_t phase);
  void loss(double mean);       // of the latest training steps
  void accuracy(double share);  // over the whole test set, after an epoch
  void bucket_done();
  void collective();
  // The threads that execute calls call this, one at a time.
  void calls(const CallMark& completed, const CallMark& pending);
  template <typename Record>
  void append(const Record& record);
  // Replaces the result text, which is CBOR to its owner and bytes here. Throws InternalError when
  // it is longer than result_capacity.
  void result(std::string_view text);
  void error(const RankError& error);  // the first call wins

 private:
  friend class RankChannels;
  explicit RankWriter(std::byte* area) : area_(area) {}
  std::byte* area_;
};

// What is read is bounded by the layout that the supervisor made, also where a rank has overwritten
// the bounds in its own area.
class RankChannels {
 public:
  static RankChannels create(const ChannelLayout& layout);  // memfd, for child processes
  static RankChannels adopt(int fd);                        // in a child
  static std::size_t bytes_per_rank(const ChannelLayout& layout);

  const ChannelLayout& layout() const { return layout_; }
  int fd() const { return memory_.fd(); }
  RankWriter writer(int rank) { return RankWriter(area_of(rank)); }
  RankStatus status(int rank) const;
  // Of StepRecord, BucketRecord, ReplicaRecord or TraceRecord.
  template <typename Record>
  std::span<const Record> records(int rank) const;
  std::span<const StepRecord> steps(int rank) const { return records<StepRecord>(rank); }
  std::span<const BucketRecord> buckets(int rank) const { return records<BucketRecord>(rank); }
  std::span<const ReplicaRecord> replicas(int rank) const { return records<ReplicaRecord>(rank); }
  std::span<const TraceRecord> trace(int rank) const { return records<TraceRecord>(rank); }
  std::uint64_t dropped_trace(int rank) const;
  std::string result(int rank) const;
  // The whole area of one rank, for sending it to another host.
  std::span<std::byte> area(int rank);

 private:
  explicit RankChannels(SharedMemory memory) : memory_(std::move(memory)) {}
  std::size_t bytes() const;
  std::byte* area_of(int rank) const;
  SharedMemory memory_;
  ChannelLayout layout_;  // what a rank writes into the memory cannot change it
};

// What a rank writes into its area of RankChannels, as messages for the channels of another host.
// Records are only ever appended, so each message has what is new.
class RankMirror {
 public:
  // `area`: RankChannels::area() of the rank, which may write meanwhile. It outlives this object.
  explicit RankMirror(std::span<std::byte> area) : area_(area) {}

  // What the rank has written since the last call, in messages of some MiB at most. The status
  // comes last, so that its counts never promise records that are not there yet. Never empty.
  std::vector<std::string> take();

 private:
  std::span<std::byte> area_;
  std::array<std::uint64_t, 4> sent_{};  // records of each kind
  // These are versions of the result that was sent last, here and in the other channels. There,
  // versions follow each other without a gap, so that a reader is never overtaken by two.
  std::uint64_t result_version_ = 0, mirrored_version_ = 0;
};

// Writes a message of take() into the area of the same rank in channels of the same layout. To be
// called in the order of the messages. Throws CommError when it does not fit there.
void apply_mirrored(std::string_view message, std::span<std::byte> area);

}  // namespace ddpbench::launch
