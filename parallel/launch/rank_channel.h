// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RankChannels: the memory through which ranks tell their supervisor how they are doing.
//
// One shared mapping made by the supervisor (or, in a joined world, private memory that rank 0
// collects). Per rank: a status slot, appended step and bucket records, and a result text. It
// outlives its rank, so a killed or interrupted run still gives a partial report. One writer a
// rank; readers may look at any time (counts are published after the records, release/acquire).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/runtime/phase.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench::launch {

enum class RankState : std::uint32_t {
  starting,
  setup,
  verifying,
  warming_up,
  training,
  evaluating,
  finished,
  failed
};
std::string_view to_string(RankState state);

// Times of one timed step on one rank. Plain data; device-clock seconds.
struct StepRecord {
  std::uint32_t epoch = 0;
  std::uint32_t step = 0;                     // counts timed steps from 0 over all epochs
  double begin_s = 0;                         // asking for the batch
  double end_s = 0;                           // end of the update
  std::array<double, kPhaseCount> phase_s{};  // time spent in each Phase; all 0 when not observed
  double comm_s = 0;                          // length of the union of the communication intervals
  double comm_overlapped_s = 0;               // part of it during which compute ran
  double comm_wait_s = 0;                     // time in which a collective waited for peers
  double comm_wait_exposed_s = 0;             // part of it without compute or transfer beside it
  std::uint32_t phases_observed = 0;          // 1 when phase_s was taken in this step
  std::uint32_t reserved = 0;
};

struct BucketRecord {
  std::uint32_t step = 0;
  std::uint32_t reserved = 0;
  BucketTimes times;
};

// An interval of a traced step; device-clock seconds. Steps and buckets have records of their own.
struct TraceRecord {
  enum class Kind : std::uint32_t { phase, layer };
  std::uint32_t step = 0;
  Kind kind = Kind::phase;
  std::uint32_t which = 0;  // the Phase, or the number of the graph's call
  std::uint32_t reserved = 0;
  double begin_s = 0, end_s = 0;
};

// What failed first on a rank. Strings are cut to their fields.
struct RankError {
  std::string kind;  // Error::kind()
  std::string message;
  std::string operation;  // "all_reduce", ...; may be empty
  int exit_code = 1;
};

// A rank's progress, as read at one moment.
struct RankStatus {
  RankState state = RankState::starting;
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;         // steps begun, over verification, warm-up and training
  std::uint32_t phase = 0;        // current Phase, kPhaseCount when none
  std::uint64_t phase_marks = 0;  // changes of phase since the step began
  std::uint64_t bucket = 0;       // buckets finished
  std::uint64_t collective = 0;   // collectives issued
  std::uint64_t heartbeat = 0;    // grows with every sign of progress
  double ready_s = 0;             // CLOCK_MONOTONIC when the rank left setup; 0: not yet
  double error_s = 0;             // and when it reported its error
  std::optional<RankError> error;
};

struct ChannelLayout {
  int ranks = 1;
  std::size_t step_capacity = 0;  // records a rank; further ones are counted but dropped
  std::size_t bucket_capacity = 0;
  std::size_t trace_capacity = 0;         // likewise; 0: nothing is traced
  std::size_t result_capacity = 1 << 20;  // bytes of a rank's result text
};

// The writing side, for one rank. Cheap: relaxed stores, no system calls. Used by one thread.
class RankWriter {
 public:
  RankWriter() = default;  // writes nowhere
  void state(RankState state);
  void begin_step(std::uint32_t epoch, std::uint64_t step);
  void phase(std::uint32_t phase);
  void bucket_done();
  void collective();
  void append(const StepRecord& record);
  void append(const BucketRecord& record);
  void append(const TraceRecord& record);
  // Replaces the result text (JSON to the owner of the words, bytes here). Throws InternalError
  // when it is longer than result_capacity.
  void result(std::string_view text);
  void error(const RankError& error);  // the first call wins

 private:
  friend class RankChannels;
  explicit RankWriter(std::byte* area) : area_(area) {}
  std::byte* area_ = nullptr;
};

class RankChannels {
 public:
  static RankChannels create(const ChannelLayout& layout);  // memfd, for child processes
  static RankChannels adopt(int fd);                        // in a child
  static std::size_t bytes_per_rank(const ChannelLayout& layout);

  const ChannelLayout& layout() const;
  int fd() const;
  RankWriter writer(int rank);
  RankStatus status(int rank) const;
  std::span<const StepRecord> steps(int rank) const;
  std::span<const BucketRecord> buckets(int rank) const;
  std::span<const TraceRecord> trace(int rank) const;
  std::uint64_t dropped_steps(int rank) const;
  std::uint64_t dropped_trace(int rank) const;
  std::string result(int rank) const;
  // The whole area of one rank, to gather it over a communicator (joined world).
  std::span<std::byte> area(int rank);

 private:
  explicit RankChannels(SharedMemory memory);
  std::byte* area_of(int rank) const;
  SharedMemory memory_;
};

}  // namespace ddpbench::launch
