// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/step_recorder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kPhasesReserved = 32;
constexpr std::string_view kEndOfStep = "the end of a step";
constexpr double kObservationShare = 0.005;  // of the step, at most (docs/metrics.md)

bool is_compute(Phase phase) {
  return phase == Phase::forward || phase == Phase::loss || phase == Phase::backward ||
         phase == Phase::optimizer || phase == Phase::sync_batch_norm;
}

}  // namespace

StepRecorder::StepRecorder(Device& device, launch::RankWriter& writer, RecorderOptions options)
    : device_(device),
      writer_(writer),
      options_(std::move(options)),
      pending_(options_.steps_ahead + 1) {
  for (Pending& step : pending_) step.end = device.make_event();
  options_.sinks.status = &writer;
  add_replica(device, options_.sinks);
}

void StepRecorder::add_replica(Device& device, ReplicaSinks sinks) {
  replicas_.emplace_back(device, std::move(sinks));
  phases_.emplace_back().reserve(kPhasesReserved);
  replica_records_.reserve(replicas_.size());
}

void StepRecorder::choose_interval(double step_s) {
  // Measures what one mark costs here, by events of a scratch phase, as begin and end record them.
  constexpr int kProbes = 200;
  DeviceMarks& marks = replicas_[0].marks();
  const DeviceMarks::Mark& scratch = marks[0];
  const double begin = device_.now_s();
  for (int i = 0; i < kProbes; ++i) {
    stream_->record(*scratch.begin);
    stream_->record(*scratch.end);
  }
  const double mark_s = (device_.now_s() - begin) / kProbes;
  options_.wait->until(*scratch.end, "events between steps");
  const double observing_s =
      mark_s * static_cast<double>(std::max<std::size_t>(marks.used().size(), 1)) + observing_s_;
  const double allowed_s = kObservationShare * std::max(step_s, 1e-9);
  // Intervals are powers of two, so that ranks with different intervals observe common steps.
  const double wanted = std::clamp(std::ceil(observing_s / allowed_s), 1.0, 1e6);
  interval_ = std::bit_ceil(static_cast<std::uint32_t>(wanted));
}

void StepRecorder::begin_step(std::uint32_t epoch, bool timed) {
  timed_ = timed;
  const bool traced = timed && timed_step_ < options_.trace_steps;
  if (epoch != epoch_ || !timed) epoch_step_ = 0;
  epoch_ = epoch;
  if (timed && epoch_step_++ % options_.cycle == 0) observes_cycle_ = cycles_++ % interval_ == 0;
  const bool wanted = !timed || traced || observes_cycle_;
  observing_ = options_.observe && wanted;
  writer_.begin_step(epoch, total_step_);
  options_.wait->at_step(total_step_);
  Pending& step = pending_[(oldest_ + queued_) % pending_.size()];
  step.timed = timed;
  step.record = {};
  step.record.epoch = epoch;
  step.record.step = timed_step_;
  step.asked_s = device_.now_s();
  for (ReplicaRecorder& replica : replicas_) replica.begin_step(observing_, observing_ && traced);
}

void StepRecorder::end_step(const std::function<void()>& report, bool skipped) {
  Pending& step = pending_[(oldest_ + queued_) % pending_.size()];
  step.record.skipped = skipped ? 1 : 0;
  stream_->record(*step.end);
  ++queued_;
  ++total_step_;
  if (timed_) ++timed_step_;
  const bool waits = observing_ || !timed_ || options_.steps_ahead == 0;
  if (waits) {
    options_.wait->until(*step.end, kEndOfStep);
    const double idle_from_s = device_.now_s();
    while (queued_ > 1) finish_oldest();
    finish_observed(step, report);
    calibrate();
    if (options_.steps_ahead > 0) observing_s_ = device_.now_s() - idle_from_s;
  } else if (queued_ == pending_.size()) {
    finish_oldest();
  }
}

void StepRecorder::finish_steps() {
  while (queued_ > 0) finish_oldest();
}

// Finishes a step of which only begin and end are known.
void StepRecorder::finish_oldest() {
  Pending& step = pending_[oldest_];
  options_.wait->until(*step.end, kEndOfStep);
  take_times(step);
  if (step.timed) writer_.append(step.record);
  oldest_ = (oldest_ + 1) % pending_.size();
  --queued_;
}

// Finishes the youngest step, which is done, with all its marks.
void StepRecorder::finish_observed(Pending& step, const std::function<void()>& report) {
  // Asynchronous devices tell the times of buckets only in the steps that are waited for.
  const bool wants_buckets = observing_ || options_.steps_ahead == 0;
  if (wants_buckets && report) report();
  if (observing_) {
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      if (i > 0)
        for (const DeviceMarks::Mark& mark : replicas_[i].marks().used())
          options_.wait->until(*mark.end, "a replica's last phase of a step");
      replicas_[i].take(phases_[i]);
    }
    sum_up(step.record);
  }
  const std::uint32_t number = step.record.step;
  const bool timed = step.timed;
  finish_oldest();
  if (!timed) return;
  if (observing_ && replicas_.size() > 1) {
    fill_replica_records(phases_, number, last_step_s_, replica_records_);
    for (const launch::ReplicaRecord& record : replica_records_) writer_.append(record);
  }
  for (const BucketTimes& times : buckets()) {
    writer_.append(launch::BucketRecord{.step = number, .times = times});
  }
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    replicas_[i].write_trace(number, static_cast<std::uint32_t>(i), writer_);
  }
}

// The clocks of host and device drift apart. They are calibrated here, where the device is idle.
void StepRecorder::calibrate() {
  constexpr double kInterval_s = 5;
  if (options_.steps_ahead == 0 || device_.now_s() - calibrated_s_ < kInterval_s) return;
  device_.calibrate_clock();
  calibrated_s_ = device_.now_s();
}

// A step begins when its batch is asked for. An asynchronous device may still work on the previous
// step by then; that work counts for the previous step.
void StepRecorder::take_times(Pending& step) {
  step.record.begin_s = std::max(step.asked_s, last_end_s_);
  step.record.end_s = std::max(step.end->time_s(), step.record.begin_s);
  last_end_s_ = step.record.end_s;
  if (step.record.skipped == 0) last_step_s_ = step.record.end_s - step.record.begin_s;
}

// A transfer begins when the last replica has come to it: until then it is waiting.
void StepRecorder::sum_up(launch::StepRecord& record) {
  StepIntervals intervals;
  record.phases_observed = bit_of(Phase::data_wait);
  record.phase_s = lengths_of(phases_[0]);
  record.interpreter_wait_s = locked_out_s(phases_[0]);
  for (const PhaseInterval& wait : replicas_[0].batch_waits()) {
    record.phase_s[static_cast<std::size_t>(Phase::data_wait)] += wait.length_s();
  }
  for (std::size_t i = 0; i < phases_[0].size(); ++i) {
    const PhaseInterval& mark = phases_[0][i];
    record.phases_observed |= bit_of(mark.phase);
    if (mark.phase == Phase::backward) record.backward_end_s = mark.end_s;
    // Time in which a bucket moves beside an exchange of statistics is counted once, as the latter.
    if (is_compute(mark.phase)) {
      double from_s = mark.begin_s;
      for (std::size_t k = i + 1; k < phases_[0].size(); ++k) {
        const PhaseInterval& within = phases_[0][k];
        if (within.begin_s >= mark.end_s) break;
        if (within.phase != Phase::comm_wait && within.phase != Phase::encode) continue;
        intervals.compute.push_back({from_s, within.begin_s});
        from_s = within.end_s;
      }
      intervals.compute.push_back({from_s, mark.end_s});
    }
    if (!is_transfer(mark.phase)) continue;
    const double waited = waited_s(phases_[0], i, phases_);
    record.phase_s[static_cast<std::size_t>(mark.phase)] -= waited;
    intervals.waiting.push_back({mark.begin_s, mark.begin_s + waited});
    intervals.communication.push_back({mark.begin_s + waited, mark.end_s});
  }
  for (const BucketTimes& times : buckets()) {
    intervals.communication.push_back({times.arrived_s, times.end_s});
    intervals.waiting.push_back({times.start_s, times.arrived_s});
  }
  fill_communication(intervals, record);
}

double covered_s(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  double covered = 0, end = -std::numeric_limits<double>::infinity();
  for (const Interval& next : intervals) {
    covered += std::max(0.0, next.end - std::max(next.begin, end));
    end = std::max(end, next.end);
  }
  return covered;
}

void fill_communication(const StepIntervals& intervals, launch::StepRecord& record) {
  std::vector<Interval> all = intervals.compute;
  all.insert(all.end(), intervals.communication.begin(), intervals.communication.end());
  const double busy_s = covered_s(all);
  const double exposed_s = busy_s - covered_s(intervals.compute);
  record.comm_s = covered_s(intervals.communication);
  record.comm_overlapped_s = std::clamp(record.comm_s - exposed_s, 0.0, record.comm_s);
  record.comm_wait_s = covered_s(intervals.waiting);
  all.insert(all.end(), intervals.waiting.begin(), intervals.waiting.end());
  record.comm_wait_exposed_s = std::clamp(covered_s(all) - busy_s, 0.0, record.comm_wait_s);
}

void StepRunner::run(const StepInputs& inputs) {
  if (!records_ || !warm_) {
    strategy_.step(inputs);
    warm_ = true;
    return;
  }
  const StepInput input = inputs(0);
  const bool observing = recorder_.observing();
  if (!recordings_.contains({input.images, observing})) {
    // With marks and without while the run still warms up: no timed step records anything.
    for (const bool marked : {false, true}) {
      recorder_.replica().begin_recording(marked);
      recordings_[{input.images, marked}] = record(input);
      recorder_.replica().end_recording();
    }
  }
  if (observing) recorder_.replica().repeat_marks();
  if (world_ != nullptr) world_->check();
  recordings_.at({input.images, observing})->replay(stream_);
}

std::unique_ptr<Recording> StepRunner::record(const StepInput& input) {
  stream_.begin_recording();
  try {
    strategy_.step([&input](int) { return input; });
  } catch (...) {
    // The stream must leave the recording. An error in doing so is not the cause.
    try {
      stream_.end_recording();
    } catch (const Error&) {
    }
    throw;
  }
  return stream_.end_recording();
}

}  // namespace ddpbench::bench
