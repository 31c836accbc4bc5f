// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank tells its supervisor: its state, its times and its error. Plain data, the same in
// all processes of a run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/math.h"
#include "kernels/runtime/phase.h"
#include "parallel/comm/communicator.h"

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
inline constexpr std::string_view kRankStateWords[] = {"starting",   "setting up", "verifying",
                                                       "warming up", "training",   "evaluating",
                                                       "finished",   "failed"};
static_assert(std::size(kRankStateWords) == static_cast<std::size_t>(RankState::failed) + 1);

// "unknown" for a number that is no state: it may come from memory that others write.
constexpr std::string_view to_string(RankState state) {
  const auto index = static_cast<std::size_t>(state);
  return index < std::size(kRankStateWords) ? kRankStateWords[index] : "unknown";
}

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
  std::uint32_t phases_observed = 0;          // bit_of each phase that it had; 0 when not observed
  std::uint32_t waits_untold = 0;             // 1 when comm_s includes waiting that is not known
  std::uint32_t skipped = 0;                  // 1 when its update was done without this rank
  double backward_end_s = 0;                  // 0 when not observed
  double interpreter_wait_s = 0;              // --emulate-gil: for the lock; in no phase_s
};

// One observed step of a further replica of a process that has several (dp): the process's own
// StepRecord has the first one's. Device-clock seconds.
struct ReplicaRecord {
  std::uint32_t step = 0;
  std::uint32_t replica = 0;  // index among the process's replicas, from 1
  double forward_s = 0, backward_s = 0;
  double comm_wait_s = 0;  // within a step's transfers, until the replicas that it needs are there
  double sync_s = 0;       // exchanging statistics of batch norm, with the wait for the others
  double idle_s = 0;       // outside of all phases: others load the batch or update
  double interpreter_wait_s = 0;  // as in a StepRecord
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
  std::uint32_t which = 0;    // the Phase, or the number of the graph's call
  std::uint32_t replica = 0;  // index among the process's replicas
  double begin_s = 0, end_s = 0;
};

// What failed first on a rank. Strings are cut to their fields.
struct RankError {
  std::string kind;  // Error::kind()
  std::string message;
  std::string operation;  // "all_reduce", ...; may be empty
  int exit_code = 1;
};

// One call of the communicator between all ranks. Plain data.
struct CallMark {
  std::uint64_t number = 0;  // from 1, of collectives or of messages of the kind with the peer; 0:
                             // no call
  comm::OperationKind kind{};
  int bucket = -1;  // -1: of none
  int peer = -1;    // -1: a collective
  std::uint64_t bytes = 0;
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
  // The last call that it completed, and the oldest that it has begun and not completed. Backends
  // between GPUs do not tell them; of ps there are then those of the servers' commands.
  CallMark completed, pending;
  std::uint64_t heartbeat = 0;     // grows with every sign of progress
  std::optional<double> loss;      // mean training loss of the latest steps; of an epoch at its end
  std::optional<double> accuracy;  // over the test set after it; where training ends with one
  double ready_s = 0;              // CLOCK_MONOTONIC when the rank left setup; 0: not yet
  double error_s = 0;              // CLOCK_MONOTONIC when it reported its error
  std::optional<RankError> error;
};

struct ChannelLayout {
  int ranks = 1;
  std::size_t step_capacity = 0;  // records a rank; further ones are counted but dropped
  std::size_t bucket_capacity = 0;
  std::size_t replica_capacity = 0;    // likewise; 0: a process has one replica
  std::size_t trace_capacity = 0;      // likewise; 0: nothing is traced
  std::size_t result_capacity = kMiB;  // bytes of a rank's result text
  bool operator==(const ChannelLayout&) const = default;
};

// The first failure of a run. `rank` is the guilty one: the rank that died or threw first, or, when
// ranks only noticed a deadline, the one with the least progress.
struct RunFailure {
  int rank = -1;
  int signal = 0;    // signal that ended it; 0 when it exited
  std::string host;  // its host's name; empty: the supervisor's
  RankError error;   // kind "signal", "exit", "stalled", or the rank's own error
  RankStatus last;   // the rank's last status
};

}  // namespace ddpbench::launch
