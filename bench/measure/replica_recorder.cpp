// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/replica_recorder.h"

#include <algorithm>

namespace ddpbench::bench {
namespace {

constexpr std::size_t kPhasesReserved = 16;

// The transfers in which every replica needs all others, not the primary alone.
bool needs_all(Phase phase) { return phase == Phase::reduce; }

}  // namespace

void cut_out_syncs(std::vector<PhaseInterval>& phases) {
  if (std::ranges::count(phases, Phase::sync_batch_norm, &PhaseInterval::phase) == 0) return;
  std::vector<PhaseInterval> cut;
  std::size_t around = 0;  // in `cut`: the interval in which a sync may lie
  for (const PhaseInterval& next : phases) {
    const bool within =
        next.phase == Phase::sync_batch_norm && !cut.empty() && next.begin_s < cut[around].end_s;
    if (!within) {
      around = cut.size();
      cut.push_back(next);
      continue;
    }
    const PhaseInterval rest{cut[around].phase, next.end_s, cut[around].end_s};
    cut[around].end_s = next.begin_s;
    cut.push_back(next);
    around = cut.size();
    cut.push_back(rest);
  }
  phases = std::move(cut);
}

double waited_s(const PhaseInterval& own, std::span<const std::vector<PhaseInterval>> others) {
  double last_s = own.begin_s;
  for (const std::vector<PhaseInterval>& other : others) {
    const auto same = std::ranges::find(other, own.phase, &PhaseInterval::phase);
    if (same != other.end()) last_s = std::max(last_s, same->begin_s);
  }
  return std::min(last_s - own.begin_s, own.length_s());
}

void fill_replica_records(std::span<const std::vector<PhaseInterval>> all, std::uint32_t step,
                          double step_s, std::vector<launch::ReplicaRecord>& records) {
  records.clear();
  for (std::size_t i = 1; i < all.size(); ++i) {
    launch::ReplicaRecord record{.step = step, .replica = static_cast<std::uint32_t>(i)};
    double busy_s = 0;
    for (const PhaseInterval& own : all[i]) {
      busy_s += own.length_s();
      if (own.phase == Phase::forward) record.forward_s += own.length_s();
      if (own.phase == Phase::backward) record.backward_s += own.length_s();
      if (own.phase == Phase::sync_batch_norm) record.sync_s += own.length_s();
      if (own.phase == Phase::loss) record.comm_wait_s += own.length_s();
      if (is_transfer(own.phase)) {
        record.comm_wait_s += waited_s(own, needs_all(own.phase) ? all : all.first(1));
      }
    }
    record.idle_s = std::max(0.0, step_s - busy_s);
    records.push_back(record);
  }
}

ReplicaRecorder::ReplicaRecorder(Device& device) : device_(device) {
  for (std::size_t i = 0; i < kPhasesReserved; ++i) {
    marks_.push_back({Phase::forward, device.make_event(), device.make_event()});
  }
}

void ReplicaRecorder::begin_step(bool observing) {
  observing_ = observing;
  used_ = 0;
}

void ReplicaRecorder::begin(Phase phase, Stream& stream) {
  if (!observing_) return;
  if (used_ == marks_.size()) {
    marks_.push_back({phase, device_.make_event(), device_.make_event()});
  }
  marks_[used_].phase = phase;
  open_[static_cast<std::size_t>(phase)] = used_;
  stream.record(*marks_[used_++].begin);
}

void ReplicaRecorder::end(Phase phase, Stream& stream) {
  if (observing_ && used_ > 0) stream.record(*marks_[open_[static_cast<std::size_t>(phase)]].end);
}

void ReplicaRecorder::take(DeviceWait& wait, std::vector<PhaseInterval>& phases) {
  phases.clear();
  if (used_ == 0) return;
  for (std::size_t i = 0; i < used_; ++i) {
    wait.until(*marks_[i].end, "a replica's last phase of a step");
  }
  for (std::size_t i = 0; i < used_; ++i) {
    phases.push_back({marks_[i].phase, marks_[i].begin->time_s(), marks_[i].end->time_s()});
  }
  cut_out_syncs(phases);
}

}  // namespace ddpbench::bench
