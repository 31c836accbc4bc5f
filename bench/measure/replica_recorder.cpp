// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/replica_recorder.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kMarksReserved = 32;

// The transfers in which every replica needs all others, not the primary alone.
bool needs_all(Phase phase) { return phase == Phase::reduce; }

}  // namespace

PhaseLengths lengths_of(const std::vector<PhaseInterval>& phases) {
  PhaseLengths lengths{};
  const PhaseInterval* around = nullptr;
  for (const PhaseInterval& next : phases) {
    lengths[static_cast<std::size_t>(next.phase)] += next.length_s() - next.locked_out_s;
    if (around != nullptr && next.begin_s < around->end_s) {
      lengths[static_cast<std::size_t>(around->phase)] -= next.length_s();
    } else {
      around = &next;
    }
  }
  return lengths;
}

double locked_out_s(const std::vector<PhaseInterval>& phases) {
  return std::transform_reduce(phases.begin(), phases.end(), 0.0, std::plus(),
                               [](const PhaseInterval& phase) { return phase.locked_out_s; });
}

double waited_s(std::span<const PhaseInterval> own, std::size_t i,
                std::span<const std::vector<PhaseInterval>> others) {
  const PhaseInterval& interval = own[i];
  const auto same = [&](const PhaseInterval& one) { return one.phase == interval.phase; };
  const auto earlier = std::ranges::count_if(own.first(i), same);
  double last_s = interval.begin_s;
  for (const std::vector<PhaseInterval>& other : others) {
    auto theirs = other | std::views::filter(same) | std::views::drop(earlier);
    if (!theirs.empty()) last_s = std::max(last_s, theirs.front().begin_s);
  }
  return std::min(last_s - interval.begin_s, interval.length_s());
}

void fill_replica_records(std::span<const std::vector<PhaseInterval>> all, std::uint32_t step,
                          double step_s, std::vector<launch::ReplicaRecord>& records) {
  records.clear();
  for (std::size_t i = 1; i < all.size(); ++i) {
    const PhaseLengths lengths = lengths_of(all[i]);
    const auto of = [&](Phase phase) { return lengths[static_cast<std::size_t>(phase)]; };
    launch::ReplicaRecord record{.step = step,
                                 .replica = static_cast<std::uint32_t>(i),
                                 .forward_s = of(Phase::forward),
                                 .backward_s = of(Phase::backward),
                                 .comm_wait_s = of(Phase::loss),
                                 .sync_s = of(Phase::sync_batch_norm),
                                 .interpreter_wait_s = locked_out_s(all[i])};
    for (std::size_t k = 0; k < all[i].size(); ++k) {
      const Phase phase = all[i][k].phase;
      if (!is_transfer(phase)) continue;
      record.comm_wait_s += waited_s(all[i], k, needs_all(phase) ? all : all.first(1));
    }
    record.idle_s = std::max(
        0.0, step_s - std::accumulate(lengths.begin(), lengths.end(), record.interpreter_wait_s));
    records.push_back(record);
  }
}

void DeviceMarks::reserve(std::size_t count) {
  while (marks_.size() < count) {
    marks_.push_back({.begin = device_.make_event(), .end = device_.make_event()});
  }
}

std::size_t DeviceMarks::begin(launch::TraceRecord::Kind kind, std::size_t which, Stream& stream) {
  reserve(used_ + 1);
  Mark& mark = marks_[used_];
  mark.kind = kind;
  mark.which = static_cast<std::uint32_t>(which);
  stream.record(*mark.begin);
  return used_++;
}

ReplicaRecorder::ReplicaRecorder(Device& device, ReplicaSinks sinks)
    : device_(device), sinks_(std::move(sinks)), marks_(device) {
  for (std::size_t p = 0; sinks_.ranges != nullptr && p < kPhaseCount; ++p) {
    phase_names_[p] = sinks_.ranges->add_name(std::string(to_string(static_cast<Phase>(p))));
  }
  marks_.reserve(kMarksReserved);
}

// A layer that runs in micro-batches is launched once, with the first of them: a script would make
// one call.
void ReplicaRecorder::name_calls(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto contains = [&](const char* part) { return name.find(part) != std::string::npos; };
    is_launched_.push_back(!contains(", micro-batch ") || contains(", micro-batch 1 "));
    if (sinks_.ranges != nullptr) call_names_.push_back(sinks_.ranges->add_name(name));
  }
}

void ReplicaRecorder::begin_step(bool phases, bool calls) {
  observing_ = marking_ = phases;
  tracing_ = calls;
  marks_.clear();
  buckets_.clear();
  open_.fill(0);
  waits_.clear();
  locked_out_s_.fill(0);
  strike_faults();
}

void ReplicaRecorder::tell_phase(std::uint32_t phase) {
  entered_ = phase;
  if (sinks_.status != nullptr) sinks_.status->phase(phase);
}

// A kill, stop or throw planted for this step strikes before it.
void ReplicaRecorder::strike_faults() {
  ++step_;
  for (const Injection& injection : sinks_.faults) {
    if (injection.step != step_) continue;
    if (injection.kind == "kill") ::kill(::getpid(), SIGKILL);
    if (injection.kind == "stop") ::kill(::getpid(), SIGSTOP);
    if (injection.kind == "throw") {
      throw InternalError(fmt::format("planted by --inject={}", injection.text));
    }
  }
}

// By how many seconds a phase that has lasted `length_s` is stretched in this step.
double ReplicaRecorder::stretch_s(Phase phase, double length_s) const {
  double sum_s = 0;
  for (const Injection& injection : sinks_.faults) {
    if (injection.kind != "slow" || injection.phase != to_string(phase)) continue;
    if (injection.step >= 0 && injection.step != step_) continue;
    sum_s += length_s * injection.percent / 100 + injection.ms * 1e-3;
  }
  return sum_s;
}

// Waits where a slowed phase, which the host does (data_wait) or has queued, ends.
void ReplicaRecorder::stretch(Phase phase, Stream& stream) {
  double begin_s = 0;
  if (phase == Phase::data_wait) {
    begin_s = waits_.back().begin_s;
  } else {
    stream.synchronize();
    begin_s = begun_[static_cast<std::size_t>(phase)]->time_s();
  }
  const double until_s = device_.now_s() + stretch_s(phase, device_.now_s() - begin_s);
  while (device_.now_s() < until_s) {
  }
}

// A range is the outermost, so that it shows the cost of recording, too; a slowed phase ends later
// for all.
void ReplicaRecorder::begin(Phase phase, Stream& stream) {
  const auto which = static_cast<std::size_t>(phase);
  if (sinks_.ranges != nullptr) sinks_.ranges->push(phase_names_[which]);
  around_ = entered_;
  tell_phase(static_cast<std::uint32_t>(phase));
  if (phase == Phase::data_wait) {
    waits_.push_back({Phase::data_wait, device_.now_s()});
  } else if (marking_) {
    open_[which] = marks_.begin(launch::TraceRecord::Kind::phase, which, stream) + 1;
  }
  if (phase != Phase::data_wait && is_slowed(phase)) {
    if (!begun_[which]) begun_[which] = device_.make_event();
    stream.record(*begun_[which]);
  }
}

void ReplicaRecorder::end(Phase phase, Stream& stream) {
  if (is_slowed(phase)) stretch(phase, stream);
  tell_phase(std::exchange(around_, std::uint32_t{kPhaseCount}));
  std::size_t& open = open_[static_cast<std::size_t>(phase)];
  if (phase == Phase::data_wait) {
    waits_.back().end_s = device_.now_s();
  } else if (open > 0) {
    stream.record(*marks_[open - 1].end);
    open = 0;
  }
  if (sinks_.ranges != nullptr) sinks_.ranges->pop();
}

void ReplicaRecorder::bucket(const BucketTimes& times) {
  if (sinks_.status != nullptr) sinks_.status->bucket_done();
  buckets_.push_back(times);
}

void ReplicaRecorder::begin_call(std::size_t call, Stream& stream) {
  if (sinks_.interpreter != nullptr && is_launched_.at(call))
    locked_out_s_.at(entered_) += sinks_.interpreter->launch();
  if (sinks_.ranges != nullptr) sinks_.ranges->push(call_names_.at(call));
  if (tracing_) open_call_ = marks_.begin(launch::TraceRecord::Kind::layer, call, stream);
}

void ReplicaRecorder::end_call(std::size_t, Stream& stream) {
  if (tracing_) stream.record(*marks_[open_call_].end);
  if (sinks_.ranges != nullptr) sinks_.ranges->pop();
}

void ReplicaRecorder::begin_recording(bool marked) {
  marking_ = marked;
  marks_.clear();
}

void ReplicaRecorder::end_recording() {
  recorded_marks_ = marks_.used().size();
  marking_ = observing_;
  marks_.clear();
}

void ReplicaRecorder::take(std::vector<PhaseInterval>& phases) {
  phases.clear();
  for (const DeviceMarks::Mark& mark : marks_.used()) {
    if (mark.kind != launch::TraceRecord::Kind::phase) continue;
    PhaseInterval& phase = phases.emplace_back(static_cast<Phase>(mark.which), mark.begin->time_s(),
                                               mark.end->time_s());
    // The host may have waited while a device still computed what was queued before.
    phase.locked_out_s = std::min(locked_out_s_[mark.which], phase.length_s());
    locked_out_s_[mark.which] -= phase.locked_out_s;
  }
}

void ReplicaRecorder::write_trace(std::uint32_t step, std::uint32_t replica,
                                  launch::RankWriter& writer) {
  if (!tracing_) return;
  launch::TraceRecord record{.step = step, .replica = replica};
  for (const PhaseInterval& wait : waits_) {
    record.which = static_cast<std::uint32_t>(Phase::data_wait);
    record.begin_s = wait.begin_s;
    record.end_s = wait.end_s;
    writer.append(record);
  }
  for (const DeviceMarks::Mark& mark : marks_.used()) {
    record.kind = mark.kind;
    record.which = mark.which;
    record.begin_s = mark.begin->time_s();
    record.end_s = mark.end->time_s();
    writer.append(record);
  }
}

void ServerTrace::begin(Phase phase, Stream& stream) {
  if (phase == Phase::replicate) {  // parameters come
    marks_.clear();
    round_ = 0;
    ++start_;
    return;
  }
  if (phase == Phase::push && round_ <= rounds_ && ++round_ > rounds_) {
    stream.synchronize();
    publish();
  }
  if (!is_kept()) return;
  open_ = marks_.begin(launch::TraceRecord::Kind::phase, static_cast<std::size_t>(phase), stream);
  marks_[open_].step = (round_ - 1) / of_step_;
}

void ServerTrace::end(Phase phase, Stream& stream) {
  if (phase != Phase::replicate && is_kept()) stream.record(*marks_[open_].end);
}

void ServerTrace::publish() {
  for (const DeviceMarks::Mark& mark : marks_.used()) {
    if (!mark.begin->reached() || !mark.end->reached()) continue;
    const double begin_s = mark.begin->time_s(), end_s = mark.end->time_s();
    if (end_s < begin_s) continue;  // it was not ended: the event is that of an earlier mark
    writer_.append(launch::TraceRecord{.step = mark.step,
                                       .kind = mark.kind,
                                       .which = mark.which,
                                       .replica = start_,
                                       .begin_s = begin_s,
                                       .end_s = end_s});
  }
  marks_.clear();
}

namespace {

// Without a length a fault stays.
double length_s(const Injection& injection) {
  return injection.ms > 0 ? injection.ms * 1e-3 : std::numeric_limits<double>::infinity();
}

launch::CallMark mark_of(const comm::Operation& operation, std::uint64_t number) {
  return {.number = number,
          .kind = operation.kind,
          .bucket = operation.bucket,
          .peer = operation.is_message() ? operation.root : -1,
          .bytes = operation.part().bytes()};
}

}  // namespace

CallMarks::CallMarks(launch::RankWriter& writer, std::vector<Injection> injections)
    : writer_(writer), injections_(std::move(injections)) {}

void CallMarks::begun(const comm::Operation& operation) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number =
      operation.is_message() ? ++messages_[{operation.kind, operation.root}] : ++collectives_;
  under_way_.push_back(mark_of(operation, number));
  write();
}

// Calls that are alike are completed in their order.
void CallMarks::done(const comm::Operation& operation) {
  const launch::CallMark like = mark_of(operation, 0);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(under_way_, [&](const launch::CallMark& mark) {
    return mark.kind == like.kind && mark.peer == like.peer && mark.bytes == like.bytes &&
           mark.bucket == like.bucket;
  });
  if (found == under_way_.end()) return;
  completed_ = *found;
  under_way_.erase(found);
  write();
}

void CallMarks::write() {
  writer_.calls(completed_, under_way_.empty() ? launch::CallMark{} : under_way_.front());
}

double CallMarks::hold_up_s() {
  const std::int64_t step = step_;
  const std::lock_guard lock(mutex_);
  double sum_s = 0;
  for (const Injection& injection : injections_) {
    if (step < 0 || (injection.step >= 0 && injection.step != step)) continue;
    if (injection.kind == "slow") sum_s += length_s(injection);
    if (injection.kind != "stall" || stalled_step_ == step) continue;
    stalled_step_ = step;
    sum_s += length_s(injection);
  }
  return sum_s;
}

}  // namespace ddpbench::bench
