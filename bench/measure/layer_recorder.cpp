// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/layer_recorder.h"

namespace ddpbench::bench {

void LayerRecorder::begin_step(bool active) {
  active_ = active;
  used_ = 0;
}

void LayerRecorder::begin_call(std::size_t call, Stream& stream) {
  if (!active_) return;
  if (used_ == marks_.size()) marks_.push_back({call, device_.make_event(), device_.make_event()});
  marks_[used_].call = call;
  stream.record(*marks_[used_].begin);
}

void LayerRecorder::end_call(std::size_t, Stream& stream) {
  if (!active_) return;
  stream.record(*marks_[used_++].end);
}

void LayerRecorder::append_to(launch::RankWriter& writer, std::uint32_t step) const {
  for (std::size_t i = 0; i < used_; ++i) {
    writer.append(launch::TraceRecord{.step = step,
                                      .kind = launch::TraceRecord::Kind::layer,
                                      .which = static_cast<std::uint32_t>(marks_[i].call),
                                      .begin_s = marks_[i].begin->time_s(),
                                      .end_s = marks_[i].end->time_s()});
  }
}

}  // namespace ddpbench::bench
