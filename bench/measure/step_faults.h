// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepFaults: plants the faults of --inject that strike while a rank takes steps. It passes each
// phase on to the observer that it decorates; a slowed phase ends later for that observer. A
// process with several replicas (dp) has one for each replica that is slowed. Time in which the
// process was stopped (Ctrl-Z) is not stretched.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/options/options.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"

namespace ddpbench::bench {

class StepFaults final : public PhaseObserver {
 public:
  // `injections` are this rank's, of the kinds slow, kill, stop and throw; a further replica's are
  // slow. `device` and `inner` outlive this. Phases are for the replica's thread.
  StepFaults(Device& device, std::vector<Injection> injections, PhaseObserver& inner);

  // Call it before each step, also of verification and warm-up, and before the replica's thread
  // begins its part of it. A kill, stop or throw planted for this step strikes here; throw throws
  // InternalError.
  void begin_step();

  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes& times) override { inner_.bucket(times); }

 private:
  // By how many seconds the phase, which has lasted `length_s`, is stretched in this step.
  double stretch_s(Phase phase, double length_s) const;
  bool is_slowed(Phase phase) const { return stretch_s(phase, 1) > 0; }

  Device& device_;
  std::vector<Injection> injections_;
  PhaseObserver& inner_;
  std::array<std::unique_ptr<Event>, kPhaseCount> begun_;  // [phase], when it is slowed
  double wait_begin_s_ = 0;                                // of data_wait, which the host does
  std::int64_t step_ = -1;  // counted over verification, warm-up and training
};

}  // namespace ddpbench::bench
