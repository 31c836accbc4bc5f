// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WriteTuner: chooses how large results are written: through the cache, or past it with
// non-temporal stores.
//
// What a peer has read is in its cache, too, and a store through the cache must first take it away
// there. Between cores that share a cache this costs almost nothing. Between others it is the whole
// cost: 1.69 MB all-reduced by two ranks took 61 us on neighbouring cores and 700 to 900 us on
// distant ones, and with non-temporal stores 110 us on either (Zen 4). A virtual machine does not
// tell which cores share a cache: so it is measured.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "parallel/comm/communicator.h"

namespace ddpbench::comm {

enum class WriteMode : std::uint8_t { cached, non_temporal };

class WriteTuner {
 public:
  // The mode of the next operation. Of every kPeriod operations two try the other mode. Only the
  // second is believed, because the first still finds the memory as the former mode left it. All
  // ranks try at the same time, so the effect of one's stores on another is measured, too.
  WriteMode begin_operation() noexcept;
  // Whether this operation is to be passed to record().
  bool wants_record() const noexcept { return operation_ % kSampling == kProbe % kSampling + 1; }
  // Records how long the writing took, without waiting for peers.
  void record(std::size_t bytes, double seconds) noexcept;

 private:
  static constexpr std::uint64_t kPeriod = 64;
  static constexpr std::uint64_t kProbe = 12;    // place of the first trial in a period
  static constexpr std::uint64_t kSampling = 8;  // one of this many operations is measured

  std::uint64_t operation_ = 0;
  WriteMode chosen_ = WriteMode::cached;
  WriteMode current_ = WriteMode::cached;
  double cached_s_per_byte_ = 0;  // 0: not known yet
  double non_temporal_s_per_byte_ = 0;
};

// One rank's tuners for the results of large operations, kept from one to the next. Memory that
// fits into a cache behaves otherwise than memory that does not, so each magnitude has its own.
class WriteTuners {
 public:
  WriteTuner& of(OperationKind kind, std::size_t bytes) {
    const auto power_of_4 = static_cast<std::size_t>(std::bit_width(bytes)) / 2;
    return tuners_[static_cast<std::size_t>(kind)][power_of_4];
  }

 private:
  std::array<std::array<WriteTuner, 33>, 10> tuners_;
};

// The arithmetic of reductions, and copies. It is vectorised for an instruction set chosen at run
// time; the result does not depend on that (no fused multiply-add, one rounding an addition).
struct ReduceSpec {
  DataType type = DataType::fp32;
  ReduceOp op = ReduceOp::sum;
  int divisor = 1;  // for an average: the number of ranks
};

// target = sources[0] op sources[1] op ..., from left to right; average divides at the end, rounded
// once more. sources[0] may be target itself. bf16 and fp16 are added in fp32 and rounded after
// each addition; integers wrap, and their average is truncated; the maximum of a NaN is a NaN.
// REQUIRES: at least one source.
void reduce_sources(void* target, std::span<const std::byte* const> sources, std::size_t count,
                    const ReduceSpec& spec, WriteMode mode = WriteMode::cached);

// Divides a sum over `ranks`, in place, as reduce_sources() does for an average.
inline void divide_sum(const Elements& sum, int ranks) {
  const std::byte* const source = static_cast<const std::byte*>(sum.data);
  reduce_sources(sum.data, {&source, 1}, sum.count, {sum.type, ReduceOp::average, ranks});
}

// memcpy with a choice of stores. It fences after non-temporal stores, so that publishing is in
// order.
void copy_bytes(void* target, const void* source, std::size_t bytes,
                WriteMode mode = WriteMode::cached);

}  // namespace ddpbench::comm
