// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepRecorder: the observer of one rank. Turns marked phases and buckets into the records of a
// step and keeps the rank's status slot up to date.
//
// Costs: a mark is one event (CPU: one clock read) and one relaxed store; phases are marked on
// every Nth step only, with N chosen so that observing stays below half a percent of the step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/layer_recorder.h"
#include "bench/options.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/phase.h"
#include "parallel/launch/rank_channel.h"
#include "reports/metrics.h"

namespace ddpbench::bench {

struct RecorderOptions {
  bool observe = true;                // phases and buckets; steps are always recorded
  std::uint32_t trace_steps = 0;      // timed steps that are traced; observed all
  std::vector<Injection> injections;  // of this rank: slow, kill, stop, throw
};

class StepRecorder final : public PhaseObserver {
 public:
  StepRecorder(Device& device, Stream& stream, launch::RankWriter& writer, RecorderOptions options);

  // Around every step. Only `timed` steps are appended to the channel. A planted kill, stop or
  // throw for this step strikes in begin_step.
  void begin_step(std::uint32_t epoch, bool timed);
  void end_step();
  // Chooses N from the warm-up's steps; call between warm-up and training.
  void choose_interval(double step_s);

  void begin(Phase phase, Stream& stream) override;
  void end(Phase phase, Stream& stream) override;
  void bucket(const BucketTimes& times) override;

  // Who is to be told of a graph's calls; null when nothing is traced.
  nn::LayerObserver* layers() { return options_.trace_steps > 0 ? &layers_ : nullptr; }

  std::uint32_t interval() const { return interval_; }
  double last_step_s() const { return record_.end_s - record_.begin_s; }

 private:
  struct Mark {
    Phase phase;
    std::unique_ptr<Event> begin, end;
  };
  void strike();
  void slow_down(Phase phase, double begin_s);
  void finish_record();
  void append_trace();

  Device& device_;
  Stream& stream_;
  launch::RankWriter& writer_;
  RecorderOptions options_;
  std::unique_ptr<Event> step_begin_, step_end_;
  std::vector<Mark> marks_;  // pool; the first used_ belong to this step
  std::size_t used_ = 0;
  std::array<std::size_t, kPhaseCount> open_{};  // index of the open mark + 1; 0: none
  LayerRecorder layers_;
  std::vector<BucketTimes> buckets_;
  std::vector<report::Interval> compute_, communication_, waiting_;
  launch::StepRecord record_;
  std::uint64_t total_step_ = 0;  // over verification, warm-up and training
  std::uint32_t timed_step_ = 0;
  std::uint32_t interval_ = 1;
  bool timed_ = false;
  bool observing_ = false;  // phases of this step
  bool tracing_ = false;    // and its layers
};

}  // namespace ddpbench::bench
