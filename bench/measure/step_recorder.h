// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepRecorder: the stopwatch of one rank. It turns marked phases and buckets into step records and
// keeps the rank's status slot up to date.
//
// A mark costs one event (on CPU devices one clock read) and one relaxed store. Phases are marked
// on every Nth step only. N is chosen so that observing takes less than half a percent of the time.
//
// A CUDA device is asynchronous, and the host runs some steps ahead of it. The recorder reads the
// times of such a step when the device has finished it. It waits for each step whose phases it
// observes, because it reads their marks then. The wait is part of the cost of observing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/measure/device_wait.h"
#include "bench/measure/replica_recorder.h"
#include "bench/measure/step_intervals.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

struct RecorderOptions {
  bool observe = true;              // phases and buckets; steps are always recorded
  std::size_t steps_ahead = 0;      // timed steps in flight after one has been queued, at most
  std::uint32_t observe_first = 0;  // the first timed steps, observed at any interval
  std::shared_ptr<DeviceWait> wait = std::make_shared<DeviceWait>();  // for the ends of steps
};

class StepRecorder final : public PhaseObserver {
 public:
  StepRecorder(Device& device, launch::RankWriter& writer, RecorderOptions options);

  // Steps end on this stream: that of the rank's first replica. Call it before all steps.
  void follow(Stream& stream) { stream_ = &stream; }

  // The recorders of the process's further replicas (dp), in their order. They outlive this. Call
  // it before all steps.
  void observe_also(std::vector<ReplicaRecorder*> others);

  // Enclose each step. Only `timed` steps are appended to the channel.
  void begin_step(std::uint32_t epoch, bool timed);
  // `report` tells this recorder the step's buckets. It is called when they are wanted, after the
  // step is done.
  void end_step(const std::function<void()>& report = {});
  // Waits for the steps in flight and records them. Call it after each epoch.
  void finish_steps();
  // Chooses N from the warm-up's steps; call it between warm-up and training.
  void choose_interval(double step_s);

  // Whether the phases of the current step are marked.
  bool observing() const { return observing_; }
  // Enclose the recording of a step's work, with marks of its phases or without.
  void begin_recording(bool marked);
  void end_recording();
  // A replay marks the step's phases: the marks are those that were recorded.
  void repeat_marks() { used_ = recorded_marks_; }

  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes& times) override;

  std::uint32_t interval() const { return interval_; }
  double last_step_s() const { return last_step_s_; }  // of the last step that was waited for

 private:
  struct Mark {
    Phase phase;
    std::unique_ptr<Event> begin, end;
  };
  // A step that was queued. Its record lacks the times.
  struct Pending {
    std::unique_ptr<Event> end;
    double asked_s = 0;  // when the host began it
    launch::StepRecord record;
    bool timed = false;
  };
  void take_times(Pending& step);
  void finish_oldest();
  void finish_observed(Pending& step, const std::function<void()>& report);
  void calibrate();
  void take_phases();
  void sum_up(launch::StepRecord& record);

  Device& device_;
  Stream* stream_ = nullptr;
  launch::RankWriter& writer_;
  RecorderOptions options_;
  std::vector<Pending> pending_;  // ring of steps_ahead + 1
  std::size_t oldest_ = 0, queued_ = 0;
  double last_end_s_ = 0, last_step_s_ = 0;
  // The phase that the rank is in, and that in which it exchanges statistics; kPhaseCount: none.
  std::uint32_t entered_ = kPhaseCount, around_ = kPhaseCount;
  std::vector<Mark> marks_;  // pool; the first used_ belong to this step
  std::size_t used_ = 0, recorded_marks_ = 0;
  // How long the device was idle while the host read the marks of the last observed step.
  double observing_s_ = 0;
  double calibrated_s_ = 0;
  double wait_begin_s_ = 0, wait_end_s_ = 0;     // of data_wait, which the host does
  std::array<std::size_t, kPhaseCount> open_{};  // index of the open mark + 1; 0: none
  std::vector<BucketTimes> buckets_;
  std::vector<ReplicaRecorder*> others_;
  std::vector<std::vector<PhaseInterval>> phases_;  // [replica] of the observed step
  std::vector<launch::ReplicaRecord> replica_records_;
  StepIntervals intervals_;
  std::uint64_t total_step_ = 0;  // counted over verification, warm-up and training
  std::uint32_t timed_step_ = 0;
  std::uint32_t interval_ = 1;
  bool timed_ = false;
  bool observing_ = false;  // the phases of this step are observed
  bool marking_ = false;    // the work queued now is marked
};

}  // namespace ddpbench::bench
