// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ReplicaRecorder: observes one replica of a rank. It marks phases and calls on the replica's
// device, and hands them on to what else takes part in them: the status in the rank's channel, a
// profiler (NVTX), the slowness of --inject, the lock of --emulate-gil. The rank's StepRecorder
// reads the marks of all replicas when the step is done.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/options/options.h"
#include "kernels/nn/program.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "kernels/runtime/range_marker.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

struct PhaseInterval {
  Phase phase = Phase::forward;
  double begin_s = 0, end_s = 0;  // device clock
  double locked_out_s = 0;        // of it, waiting for the InterpreterLock
  double length_s() const { return end_s - begin_s; }
};

// The length of each phase without its wait for the lock. One that lies in another (a sync of batch
// norm, a wait for a bucket) counts for itself alone.
// REQUIRES: `phases` is ordered by begin.
using PhaseLengths = std::array<double, kPhaseCount>;
PhaseLengths lengths_of(const std::vector<PhaseInterval>& phases);

// How long these waited for the InterpreterLock.
double locked_out_s(const std::vector<PhaseInterval>& phases);

// Interval `i` of `own` lasts from entering a transfer to its end. Returns how long it waited until
// the replicas in `others` had entered it, too: the n-th of its phase is the n-th of theirs.
double waited_s(std::span<const PhaseInterval> own, std::size_t i,
                std::span<const std::vector<PhaseInterval>> others);

// Fills `records` with one record for each replica but the first, from the phases of all (`all[0]`:
// the primary's) in a step of `step_s`. A transfer waits for the primary, a reduce for all. Their
// loss phase counts as waiting, because the primary computes the loss.
void fill_replica_records(std::span<const std::vector<PhaseInterval>> all, std::uint32_t step,
                          double step_s, std::vector<launch::ReplicaRecord>& records);

// --emulate-gil: what each call of a layer costs where an interpreter makes it, and what its global
// lock adds where replicas are threads of one interpreter. A replica holds the lock while it
// launches a call, not while the call computes, as PyTorch does. One a process.
class InterpreterLock {
 public:
  explicit InterpreterLock(double launch_s) : launch_s_(launch_s) {}
  // Waits for the lock, and holds it for `launch_s` of processor time. Returns how long it waited.
  double launch() {
    const double asked_s = steady_s();
    std::unique_lock lock(mutex_, std::try_to_lock);
    const bool is_free = lock.owns_lock();
    if (!is_free) lock.lock();
    const double waited_s = is_free ? 0 : steady_s() - asked_s;
    spend_cpu_s(launch_s_);
    return waited_s;
  }

 private:
  const double launch_s_;
  std::mutex mutex_;
};

// What takes part in a replica's phases beside its marks. All of it outlives the recorder.
struct ReplicaSinks {
  launch::RankWriter* status = nullptr;  // told each phase that the replica is in
  RangeMarker* ranges = nullptr;         // of a profiler that listens
  std::vector<Injection> faults = {};    // of --inject; a further replica has only slow ones
  InterpreterLock* interpreter = nullptr;
};

// Begin and end of events on a device; they are used anew in each step.
class DeviceMarks {
 public:
  struct Mark {
    launch::TraceRecord::Kind kind = launch::TraceRecord::Kind::phase;
    std::uint32_t which = 0;  // as in a TraceRecord
    std::uint32_t step = 0;   // of a server
    std::unique_ptr<Event> begin, end;
  };
  explicit DeviceMarks(Device& device) : device_(device) {}
  void reserve(std::size_t count);
  void clear() { used_ = 0; }
  // Takes the first `count` marks for those of this step.
  void reuse(std::size_t count) { used_ = count; }
  // Returns the index of the new mark, whose begin it records on `stream`.
  std::size_t begin(launch::TraceRecord::Kind kind, std::size_t which, Stream& stream);
  std::span<Mark> used() { return std::span(marks_).first(used_); }
  Mark& operator[](std::size_t index) { return marks_[index]; }

 private:
  Device& device_;
  std::vector<Mark> marks_;  // pool
  std::size_t used_ = 0;
};

// One thread queues the replica's work. Other threads read the times after it has queued the step.
class ReplicaRecorder final : public PhaseObserver, public nn::LayerObserver {
 public:
  // `device` outlives this.
  ReplicaRecorder(Device& device, ReplicaSinks sinks);

  // Call it before the first call. `names`: Graph::call_names.
  void name_calls(const std::vector<std::string>& names);
  // Call it before the replica's thread begins its part of the step, of which it says what is
  // marked. The step's faults strike here.
  void begin_step(bool phases, bool calls);

  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes& times) override;
  void begin_call(std::size_t call, Stream& stream) override;
  void end_call(std::size_t call, Stream& stream) override;

  // Enclose the recording of a step's work, with marks of its phases or without.
  void begin_recording(bool marked);
  void end_recording();
  // A replay marks the step's phases: the marks are those that were recorded.
  void repeat_marks() { marks_.reuse(recorded_marks_); }

  // The following require that the replica's thread has queued all of the step, and that the device
  // has finished what is marked.
  // Puts the step's phases into `phases`.
  void take(std::vector<PhaseInterval>& phases);
  // Appends the phases and calls where they are traced.
  void write_trace(std::uint32_t step, std::uint32_t replica, launch::RankWriter& writer);
  DeviceMarks& marks() { return marks_; }
  const std::vector<BucketTimes>& buckets() const { return buckets_; }
  // The times of data_wait, which the host measures: one a pass.
  const std::vector<PhaseInterval>& batch_waits() const { return waits_; }

 private:
  void tell_phase(std::uint32_t phase);
  void strike_faults();
  double stretch_s(Phase phase, double length_s) const;
  bool is_slowed(Phase phase) const { return stretch_s(phase, 1) > 0; }
  void stretch(Phase phase, Stream& stream);

  Device& device_;
  ReplicaSinks sinks_;
  std::array<std::unique_ptr<Event>, kPhaseCount> begun_;  // [phase], when it is slowed
  std::int64_t step_ = -1;  // counted over verification, warm-up and training
  // The phase that the replica is in, and that in which it exchanges statistics; kPhaseCount: none.
  std::uint32_t entered_ = kPhaseCount, around_ = kPhaseCount;
  std::array<std::size_t, kPhaseCount> phase_names_{};  // of ranges, like the next
  std::vector<std::size_t> call_names_;
  std::vector<bool> is_launched_;  // [call]
  DeviceMarks marks_;
  std::size_t recorded_marks_ = 0;
  std::array<std::size_t, kPhaseCount> open_{};  // [phase] index of the open mark + 1; 0: none
  std::size_t open_call_ = 0;
  std::vector<PhaseInterval> waits_;
  std::array<double, kPhaseCount + 1> locked_out_s_{};  // [phase] in this step; last: in none
  std::vector<BucketTimes> buckets_;
  bool observing_ = false, tracing_ = false;  // the phases of this step, and its calls
  bool marking_ = false;                      // the work queued now is marked
};

// Records what a server of ps does in its first rounds after it was given parameters, for --trace.
// Workers send parameters before the timed steps begin, so it starts anew then: the last start in
// its records counts.
class ServerTrace final : public PhaseObserver {
 public:
  // Keeps the phases of `steps` steps, of so many rounds each, which begin with Phase::push.
  // `device` and `writer` outlive this.
  ServerTrace(Device& device, launch::RankWriter& writer, std::uint32_t steps, std::uint32_t rounds)
      : writer_(writer), of_step_(rounds), rounds_(steps * rounds), marks_(device) {}

  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes&) override {}
  // Appends what is kept and done: records with their step, and the number of the start as their
  // replica. To be called when the server has ended, too.
  void publish();

 private:
  bool is_kept() const { return round_ > 0 && round_ <= rounds_; }

  launch::RankWriter& writer_;
  const std::uint32_t of_step_, rounds_;
  DeviceMarks marks_;
  std::size_t open_ = 0;
  std::uint32_t start_ = 0, round_ = 0;  // rounds begun since the last start
};

// Writes into a rank's channel which calls of its communicator are complete and pending, and plants
// the faults of --inject that strike calls.
class CallMarks final : public comm::CallWatch {
 public:
  // `injections` are this rank's, and strike calls. `writer` outlives this.
  CallMarks(launch::RankWriter& writer, std::vector<Injection> injections);

  // Call it before each step, also of verification and warm-up. Any thread may.
  void begin_step() { ++step_; }

  void begun(const comm::Operation& operation) override;
  void done(const comm::Operation& operation) override;
  double hold_up_s() override;

 private:
  void write();

  launch::RankWriter& writer_;
  const std::vector<Injection> injections_;
  std::mutex mutex_;                         // guards these, and the writer's calls
  std::vector<launch::CallMark> under_way_;  // in the order in which they began
  launch::CallMark completed_;
  std::uint64_t collectives_ = 0;
  std::map<std::pair<comm::OperationKind, int>, std::uint64_t> messages_;  // by kind and peer
  std::int64_t stalled_step_ = -1;  // that a stall has struck

  std::atomic<std::int64_t> step_ = -1;  // counted over verification, warm-up and training
};

}  // namespace ddpbench::bench
