// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Phases of a training step and the observer that strategies mark them on.
//
// Strategies know nothing of reports. They tell their observer that a phase begins or ends on a
// stream, and the observer decides what to do with it (bench/ records, tests count, the default
// ignores).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddpbench {

class Stream;

enum class Phase : std::uint8_t {
  data_wait,  // asking the loader until the batch is there
  scatter,    // dp: global batch from the primary device to the others
  replicate,  // parameters (dp) and state (dp, ddp: running statistics) sent from the first device
  forward,
  gather,  // dp: outputs to the primary device
  loss,    // dp: loss and its gradient on the primary device, gradient scattered back
  backward,
  reduce,     // dp: gradients reduced to the primary device
  comm_wait,  // ddp, zero: waiting for the collectives in flight; zero2, zero3: within passes, too
  push,       // ps: sending gradients to the servers
  pull,       // ps: waiting for and receiving parameters or averaged gradients
  optimizer,  // update of the parameters
  // Within forward and backward, often: statistics of batch norm exchanged between the replicas.
  sync_batch_norm,
  encode,      // ddp with a hook: gradients are encoded, within backward, or decoded
  stage_wait,  // pipeline: waiting for what a neighbour's layers give, or for its gradient
};
inline constexpr std::size_t kPhaseCount = 15;
// "none" for a number that is no phase, which a rank between two phases has.
constexpr std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> kNames = {
      "data_wait", "scatter",   "replicate",       "forward",   "gather",
      "loss",      "backward",  "reduce",          "comm_wait", "push",
      "pull",      "optimizer", "sync_batch_norm", "encode",    "stage_wait"};
  const auto index = static_cast<std::size_t>(phase);
  return index < kPhaseCount ? kNames[index] : "none";
}

// The phase's own bit in a set of phases.
constexpr std::uint32_t bit_of(Phase phase) { return 1u << static_cast<unsigned>(phase); }
static_assert(kPhaseCount <= 32);

// The times of one gradient bucket (or pushed shard) in one step, on the device clock.
struct BucketTimes {
  std::uint32_t bucket = 0;
  std::uint64_t bytes = 0;
  double ready_s = 0;    // last gradient of the bucket was ready on this rank
  double start_s = 0;    // this rank entered the collective
  double arrived_s = 0;  // all peers that it needs had entered it (waiting ends, transfer begins)
  double end_s = 0;      // this rank's result was complete
  bool arrived_told = true;  // false: not known here; arrived_s is start_s
};

// Whether the phase is a transfer, or a part of one. Gradients of other strategies than dp are in
// buckets.
constexpr bool is_transfer(Phase phase) {
  return phase == Phase::scatter || phase == Phase::replicate || phase == Phase::gather ||
         phase == Phase::reduce || phase == Phase::encode;
}

class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  // Marks the phase on `stream`. Phases of one stream may not overlap, but sync_batch_norm lies
  // within forward or backward, as comm_wait and encode may; the phases of different replicas (dp)
  // are marked on their own streams.
  virtual void begin(Phase phase, Stream& stream) = 0;
  virtual void end(Phase phase, Stream& stream) = 0;
  virtual void bucket(const BucketTimes& times) = 0;
};

// Marks a phase for its own lifetime. `observer` may be null.
class ScopedPhase {
 public:
  ScopedPhase(PhaseObserver* observer, Phase phase, Stream& stream)
      : observer_(observer), phase_(phase), stream_(stream) {
    if (observer_) observer_->begin(phase_, stream_);
  }
  ~ScopedPhase() {
    if (observer_) observer_->end(phase_, stream_);
  }
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

 private:
  PhaseObserver* observer_;
  Phase phase_;
  Stream& stream_;
};

}  // namespace ddpbench
