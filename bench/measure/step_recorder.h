// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepRecorder: the stopwatch of one rank. It turns marked phases and buckets into the records of
// steps and keeps the rank's status slot up to date.
//
// A mark costs one event (on CPU devices one clock read) and one relaxed store. Phases are marked
// on every Nth step only. N is chosen so that observing takes less than half a percent of the time.
//
// A CUDA device works on its own, and the host runs some steps ahead of it. The recorder reads the
// times of such a step when the device has come to its end. It waits for each step whose phases it
// observes, because their marks are read then; the wait is part of what observing costs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/measure/device_wait.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "parallel/launch/rank_channel.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {

struct RecorderOptions {
  bool observe = true;              // phases and buckets; steps are always recorded
  std::size_t steps_ahead = 0;      // timed steps that may be under way when one has been queued
  std::uint32_t observe_first = 0;  // timed steps that are all observed, however long the interval
  std::shared_ptr<DeviceWait> wait = std::make_shared<DeviceWait>();  // for the ends of steps
};

class StepRecorder final : public PhaseObserver {
 public:
  StepRecorder(Device& device, launch::RankWriter& writer, RecorderOptions options);

  // The stream on which steps end: that of the rank's first replica. Before the first step.
  void follow(Stream& stream) { stream_ = &stream; }

  // Around every step. Only `timed` steps are appended to the channel.
  void begin_step(std::uint32_t epoch, bool timed);
  // `report` tells this recorder of the step's buckets; it is called when they are wanted, and the
  // step is done by then.
  void end_step(const std::function<void()>& report = {});
  // Waits for the steps under way and records them. After each epoch.
  void finish_steps();
  // Chooses N from the warm-up's steps; call between warm-up and training.
  void choose_interval(double step_s);

  // Whether the phases of the step that has begun are marked.
  bool observing() const { return observing_; }
  // Around the recording of a step's work, with marks of its phases or without.
  void begin_recording(bool marked);
  void end_recording();
  // The step's phases are marked by a replay: the marks are those that were recorded.
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
  // A step that was queued; its record lacks the times.
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
  void sum_up(launch::StepRecord& record);

  Device& device_;
  Stream* stream_ = nullptr;
  launch::RankWriter& writer_;
  RecorderOptions options_;
  std::vector<Pending> pending_;  // ring of steps_ahead + 1
  std::size_t oldest_ = 0, queued_ = 0;
  double last_end_s_ = 0, last_step_s_ = 0;
  std::vector<Mark> marks_;  // pool; the first used_ belong to this step
  std::size_t used_ = 0, recorded_marks_ = 0;
  // How long the device was idle last time, while the host read the marks of an observed step.
  double observing_s_ = 0;
  double calibrated_s_ = 0;
  double wait_begin_s_ = 0, wait_end_s_ = 0;     // of data_wait, which is the host's
  std::array<std::size_t, kPhaseCount> open_{};  // index of the open mark + 1; 0: none
  std::vector<BucketTimes> buckets_;
  std::vector<report::Interval> compute_, communication_, waiting_;
  std::uint64_t total_step_ = 0;  // over verification, warm-up and training
  std::uint32_t timed_step_ = 0;
  std::uint32_t interval_ = 1;
  bool timed_ = false;
  bool observing_ = false;  // phases of this step
  bool marking_ = false;    // what is queued now
};

}  // namespace ddpbench::bench
