// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// LossProgress: reads a rank's running training loss while it trains: every so many steps for the
// report (points), and about once a second for the line that shows the run's progress.
//
// A reading is a copy that is queued behind a step, and it is looked at when the device has done
// it, so nothing waits for it. The steps between points are a power of two, so that ranks with
// different intervals have points in common, and so many that a run has at most kMostPoints and
// readings take less than a twentieth of a percent of the time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/ops/flat_ops.h"
#include "kernels/runtime/device.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

// What a rank had summed up over all its training after some timed steps.
struct LossPoint {
  std::int64_t step = 0;  // how many
  double loss_sum = 0;
  std::uint64_t correct = 0, counted = 0;
};

class LossProgress {
 public:
  static constexpr std::int64_t kMostPoints = 500;

  // `totals`: the memory of the rank's training totals on `device`, which begin at zero and to
  // which steps on `stream` add. `steps`: at most so many will be timed.
  LossProgress(Device& device, Stream& stream, BufferView totals, launch::RankWriter& writer,
               std::int64_t steps);

  // Measures what a reading costs here, where a step takes `step_s`. Call it before the first step.
  void choose_interval(double step_s);
  // Call it when a timed step has been queued.
  void end_step();
  // Call it when the device has done all steps of an epoch, with the totals taken then.
  void end_epoch(const ops::LossTotals& totals);

  std::int64_t interval() const { return interval_; }
  // Those that are known by now.
  const std::vector<LossPoint>& points() const { return points_; }

 private:
  // No more steps than this are in flight.
  static constexpr std::size_t kReadings = 4;
  struct Reading {
    std::unique_ptr<Event> copied;
    std::int64_t step = 0;
  };

  BufferView memory_of(std::size_t reading) const;
  void queue_reading(std::size_t reading);
  void take_finished();
  void take(std::int64_t step, const ops::LossTotals& totals);

  Device& device_;
  Stream& stream_;
  BufferView totals_;
  launch::RankWriter& writer_;
  std::int64_t interval_ = 1;
  std::int64_t step_ = 0;
  double next_line_s_ = 0;
  Buffer memory_;                            // a LossTotals each reading
  std::array<Reading, kReadings> readings_;  // a ring
  std::size_t oldest_ = 0, queued_ = 0;
  ops::LossTotals earlier_epochs_, last_told_;
  std::vector<LossPoint> points_;
};

}  // namespace ddpbench::bench
