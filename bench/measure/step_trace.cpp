// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/step_trace.h"

namespace ddpbench::bench {

void StepTrace::begin_step(bool timed) {
  active_ = timed && timed_step_ < steps_;
  used_ = 0;
}

void StepTrace::end_step() {
  if (!active_) return;
  for (std::size_t i = 0; i < used_; ++i) {
    Mark& mark = marks_[i];
    if (!mark.by_host) {
      mark.record.begin_s = mark.begin->time_s();
      mark.record.end_s = mark.end->time_s();
    }
    writer_.append(mark.record);
  }
  ++timed_step_;
  active_ = false;
}

std::size_t StepTrace::add_mark(launch::TraceRecord::Kind kind, std::size_t which) {
  if (used_ == marks_.size()) {
    marks_.push_back({.record = {},
                      .by_host = false,
                      .begin = device_.make_event(),
                      .end = device_.make_event()});
  }
  Mark& mark = marks_[used_];
  mark.by_host = false;
  mark.record = {.step = timed_step_,
                 .kind = kind,
                 .which = static_cast<std::uint32_t>(which),
                 .replica = replica_,
                 .begin_s = 0,
                 .end_s = 0};
  return used_++;
}

void StepTrace::begin(Phase phase, Stream& stream) {
  if (active_) {
    const auto which = static_cast<std::size_t>(phase);
    open_[which] = add_mark(launch::TraceRecord::Kind::phase, which);
    Mark& mark = marks_[open_[which]];
    mark.by_host = phase == Phase::data_wait;
    if (mark.by_host) {
      mark.record.begin_s = device_.now_s();
    } else {
      stream.record(*mark.begin);
    }
  }
  inner_.begin(phase, stream);
}

// The mark of the inner observer comes last: when the device has reached that, it has reached this.
void StepTrace::end(Phase phase, Stream& stream) {
  if (active_) {
    Mark& mark = marks_[open_[static_cast<std::size_t>(phase)]];
    if (mark.by_host) {
      mark.record.end_s = device_.now_s();
    } else {
      stream.record(*mark.end);
    }
  }
  inner_.end(phase, stream);
}

void StepTrace::begin_call(std::size_t call, Stream& stream) {
  if (!active_) return;
  open_call_ = add_mark(launch::TraceRecord::Kind::layer, call);
  stream.record(*marks_[open_call_].begin);
}

void StepTrace::end_call(std::size_t, Stream& stream) {
  if (active_) stream.record(*marks_[open_call_].end);
}

}  // namespace ddpbench::bench
