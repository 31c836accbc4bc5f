// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankWriter: the part of RankChannels that a rank writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parallel/launch/rank_records.h"

namespace ddpbench::launch {

// Writes for one rank. It is cheap: plain atomic stores, no system calls. One thread uses it.
class RankWriter {
 public:
  RankWriter() = default;  // writes nowhere
  void state(RankState state);
  void begin_step(std::uint32_t epoch, std::uint64_t step);
  void phase(std::uint32_t phase);
  void loss(double mean);       // of the latest training steps
  void accuracy(double share);  // over the whole test set, after an epoch
  void bucket_done();
  void collective();
  // The threads that execute calls call this, one at a time.
  void calls(const CallMark& completed, const CallMark& pending);
  void link_cut(bool is_cut);  // any thread; see RankStatus
  void append(const StepRecord& record);
  void append(const BucketRecord& record);
  void append(const ReplicaRecord& record);
  void append(const TraceRecord& record);
  // Replaces the result text, which is CBOR to its owner and bytes here. Throws InternalError when
  // it is longer than result_capacity.
  void result(std::string_view text);
  void error(const RankError& error);  // the first call wins

 private:
  friend class RankChannels;
  explicit RankWriter(std::byte* area) : area_(area) {}
  std::byte* area_ = nullptr;
};

}  // namespace ddpbench::launch
