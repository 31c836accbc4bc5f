// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StepRecorder: the stopwatch of one rank. It turns the phases and buckets that the observers of
// the rank's replicas have marked into records in the rank's channel.
//
// Phases are marked on every Nth step (or cycle of steps) only. N is chosen so that observing takes
// less than half a percent of the time. On an asynchronous device the host runs some steps ahead;
// the recorder waits for each step whose phases it observes. That wait is part of the cost of
// observing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bench/measure/device_wait.h"
#include "bench/measure/replica_recorder.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/strategy.h"

namespace ddpbench::bench {

// A half-open interval of time, in seconds.
struct Interval {
  double begin = 0, end = 0;
};
// The length of their union. Empty and reversed ones count for nothing.
double covered_s(std::vector<Interval> intervals);

// What one rank did at which times of one step. They may overlap. Seconds of one clock.
struct StepIntervals {
  std::vector<Interval> compute;
  std::vector<Interval> communication;  // from when the peers had come
  std::vector<Interval> waiting;        // for the peers
};

// Sets comm_s, comm_overlapped_s, comm_wait_s and comm_wait_exposed_s of `record`. Waiting costs
// nothing while other work goes on.
void fill_communication(const StepIntervals& intervals, launch::StepRecord& record);

struct RecorderOptions {
  bool observe = true;            // phases and buckets; steps are always recorded
  std::size_t steps_ahead = 0;    // timed steps in flight after one has been queued, at most
  std::uint32_t cycle = 1;        // steps of which all or none are observed
  std::uint32_t trace_steps = 0;  // the first timed steps, observed at any interval and traced
  std::shared_ptr<DeviceWait> wait = std::make_shared<DeviceWait>();  // for the ends of steps
  ReplicaSinks sinks;  // of the rank's first replica, but for the status
};

class StepRecorder {
 public:
  StepRecorder(Device& device, launch::RankWriter& writer, RecorderOptions options);

  // Steps end on this stream: that of the rank's first replica. Call it before all steps.
  void follow(Stream& stream) { stream_ = &stream; }

  // Adds the process's further replicas (dp), in their order. Call it before all steps. With
  // observing off, nothing of them is recorded.
  void add_replica(Device& device, ReplicaSinks sinks);
  // The observer of a replica. It stays where it is.
  ReplicaRecorder& replica(std::size_t i = 0) { return replicas_[i]; }

  // Enclose each step. Only `timed` steps are appended to the channel.
  void begin_step(std::uint32_t epoch, bool timed);
  // `report` tells the first replica's observer the step's buckets, after the step is done.
  void end_step(const std::function<void()>& report = {}, bool skipped = false);
  // Waits for the steps in flight and records them. Call it after each epoch.
  void finish_steps();
  // Chooses N from the warm-up's steps; call it between warm-up and training.
  void choose_interval(double step_s);

  // Whether the phases of the current step are marked.
  bool observing() const { return observing_; }
  std::uint32_t interval() const { return interval_; }
  double last_step_s() const { return last_step_s_; }  // of the last step that was waited for

 private:
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
  // The buckets of the step that is done; none where nothing is observed.
  std::span<const BucketTimes> buckets() const {
    return options_.observe ? std::span(replicas_[0].buckets()) : std::span<const BucketTimes>{};
  }
  void sum_up(launch::StepRecord& record);

  Device& device_;
  Stream* stream_ = nullptr;
  launch::RankWriter& writer_;
  RecorderOptions options_;
  std::deque<ReplicaRecorder> replicas_;
  std::vector<Pending> pending_;  // ring of steps_ahead + 1
  std::size_t oldest_ = 0, queued_ = 0;
  double last_end_s_ = 0, last_step_s_ = 0;
  // How long the device was idle while the host read the marks of the last observed step.
  double observing_s_ = 0;
  double calibrated_s_ = 0;
  std::vector<std::vector<PhaseInterval>> phases_;  // [replica] of the observed step
  std::vector<launch::ReplicaRecord> replica_records_;
  std::uint64_t total_step_ = 0;  // counted over verification, warm-up and training
  std::uint32_t timed_step_ = 0;
  std::uint32_t interval_ = 1;
  std::uint32_t epoch_ = 0, epoch_step_ = 0, cycles_ = 0;  // of the timed steps so far
  bool observes_cycle_ = true;
  bool timed_ = false;
  bool observing_ = false;  // the phases of this step are observed
};

// Runs a rank's steps. Where the device can, it records them once and replays them (a CUDA graph):
// a step then costs the host one call.
class StepRunner {
 public:
  // `world`: the strategy's, null for one process. `records`: the stream can record, and each step
  // queues the same work for the same input. All outlive this: the communicator waits for
  // recordings that hold its calls.
  StepRunner(Strategy& strategy, Stream& stream, StepRecorder& recorder, comm::Communicator* world,
             bool records)
      : strategy_(strategy),
        stream_(stream),
        recorder_(recorder),
        world_(world),
        records_(records) {}

  // Runs one step, between the recorder's begin_step and end_step. The first step is queued call by
  // call. Once a step was recorded, all steps are replays, so that a strategy can report what it
  // knows about the recording. REQUIRES: one pass a step, where steps are recorded.
  void run(const StepInputs& inputs);

 private:
  // What a recording is for: the address of the batch, and whether the step's phases are marked.
  using Key = std::pair<const float*, bool>;

  std::unique_ptr<Recording> record(const StepInput& input);

  Strategy& strategy_;
  Stream& stream_;
  StepRecorder& recorder_;
  comm::Communicator* world_;
  bool records_;
  bool warm_ = false;  // a step has run: libraries have done their first-use work
  std::map<Key, std::unique_ptr<Recording>> recordings_;
};

}  // namespace ddpbench::bench
