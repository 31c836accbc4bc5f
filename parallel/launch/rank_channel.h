// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankChannels: the memory through which ranks report their state to their supervisor.
//
// It is one shared mapping made by the supervisor (in a joined world by rank 0; ranks on other
// hosts have memory of their own, which rank 0 collects). Each rank has a status slot, appended
// step, bucket, replica and trace records, and a result text. The memory outlives its rank, so a
// killed or interrupted run still gives a partial report. Each rank has one writer. Readers may
// look at any time: counts are published after the records (release/acquire).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/runtime/shared_memory.h"
#include "parallel/launch/rank_records.h"
#include "parallel/launch/rank_writer.h"

namespace ddpbench::launch {

struct RankSlot;

// What is read is bounded by the layout that the supervisor made, also where a rank has overwritten
// the bounds in its own area.
class RankChannels {
 public:
  static RankChannels create(const ChannelLayout& layout);  // memfd, for child processes
  static RankChannels adopt(int fd);                        // in a child
  // Maps the channels that another process of this host made for `layout`, by its handle(). They
  // stay when that process ends. Throws CommError when they are not those.
  static RankChannels open(const std::string& handle, const ChannelLayout& layout);
  static std::size_t bytes_per_rank(const ChannelLayout& layout);

  const ChannelLayout& layout() const { return layout_; }
  int fd() const;
  std::string handle() const;  // for open(); REQUIRES: made by create()
  RankWriter writer(int rank);
  RankStatus status(int rank) const;
  std::span<const StepRecord> steps(int rank) const;
  std::span<const BucketRecord> buckets(int rank) const;
  std::span<const ReplicaRecord> replicas(int rank) const;
  std::span<const TraceRecord> trace(int rank) const;
  std::uint64_t dropped_steps(int rank) const;
  std::uint64_t dropped_trace(int rank) const;
  std::string result(int rank) const;
  // The whole area of one rank, for sending it to another host (joined world).
  std::span<std::byte> area(int rank);

 private:
  explicit RankChannels(SharedMemory memory);
  std::byte* area_of(int rank) const;
  RankSlot& bounded_slot(int rank) const;
  SharedMemory memory_;
  ChannelLayout layout_;  // what a rank writes into the memory cannot change it
};

}  // namespace ddpbench::launch
