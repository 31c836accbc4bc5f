// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/server_trace.h"

namespace ddpbench::bench {

void ServerTrace::begin(Phase phase, Stream& stream) {
  if (phase == Phase::replicate) {  // parameters come
    used_ = 0;
    round_ = 0;
    ++start_;
    return;
  }
  if (phase == Phase::push && round_ <= rounds_ && ++round_ > rounds_) publish();
  if (!is_kept()) return;
  if (used_ == marks_.size()) {
    marks_.push_back({.begin = device_.make_event(), .end = device_.make_event()});
  }
  Mark& mark = marks_[used_++];
  mark.phase = phase;
  mark.round = round_ - 1;
  stream.record(*mark.begin);
}

void ServerTrace::end(Phase phase, Stream& stream) {
  if (phase != Phase::replicate && is_kept()) stream.record(*marks_[used_ - 1].end);
}

void ServerTrace::publish() {
  for (std::size_t i = 0; i < used_; ++i) {
    const Mark& mark = marks_[i];
    if (!mark.begin->reached() || !mark.end->reached()) continue;
    const double begin_s = mark.begin->time_s(), end_s = mark.end->time_s();
    if (end_s < begin_s) continue;  // it was not ended: the event is that of an earlier mark
    writer_.append(launch::TraceRecord{.step = mark.round,
                                       .kind = launch::TraceRecord::Kind::phase,
                                       .which = static_cast<std::uint32_t>(mark.phase),
                                       .replica = start_,
                                       .begin_s = begin_s,
                                       .end_s = end_s});
  }
  used_ = 0;
}

}  // namespace ddpbench::bench
