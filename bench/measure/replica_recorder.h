// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ReplicaRecorder: records the phases of one further replica in a process that has several (dp).
// The functions below derive from all replicas' phases how long they waited for each other.
//
// The process's StepRecorder has the first replica's phases. It reads the others' when the step is
// done, and then tells waiting from transfers: each replica marks when it enters a transfer, so the
// moment at which the last one came is known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/measure/device_wait.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::bench {

struct PhaseInterval {
  Phase phase = Phase::forward;
  double begin_s = 0, end_s = 0;  // device clock
  double length_s() const { return end_s - begin_s; }
};

// Takes the sync_batch_norm intervals out of the intervals in which they lie. What is left of such
// an interval after the cut becomes an interval of its own. REQUIRES: `phases` is ordered by begin.
void cut_out_syncs(std::vector<PhaseInterval>& phases);

// `own` lasts from entering a transfer to its end. Returns how long it waited until the replicas in
// `others` had entered the same transfer: at most its length. Each of `others` has at most one
// interval of that phase, and may have intervals of other phases.
double waited_s(const PhaseInterval& own, std::span<const std::vector<PhaseInterval>> others);

// Fills `records` with one record for each replica but the first, from the phases of all (`all[0]`:
// the primary's). A transfer from or to the primary waits for the primary; a reduce waits for all.
// Their loss phase counts as waiting, because the primary computes the loss. `step_s`: the length
// of the step.
void fill_replica_records(std::span<const std::vector<PhaseInterval>> all, std::uint32_t step,
                          double step_s, std::vector<launch::ReplicaRecord>& records);

// One thread queues the replica's work. Other threads read the times after it has queued the step.
class ReplicaRecorder final : public PhaseObserver {
 public:
  // `device` outlives this.
  explicit ReplicaRecorder(Device& device);

  // Call it before the replica's thread begins its part of the step.
  void begin_step(bool observing);
  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes&) override {}
  // Waits until the device has finished the step's last phase, and puts the phases into `phases`.
  // REQUIRES: the replica's thread has queued the whole step.
  void take(DeviceWait& wait, std::vector<PhaseInterval>& phases);

 private:
  struct Mark {
    Phase phase = Phase::forward;
    std::unique_ptr<Event> begin, end;
  };
  Device& device_;
  std::vector<Mark> marks_;  // pool; the first used_ belong to this step
  std::size_t used_ = 0;
  std::array<std::size_t, kPhaseCount> open_{};  // [phase] index of its last mark
  bool observing_ = false;
};

}  // namespace ddpbench::bench
