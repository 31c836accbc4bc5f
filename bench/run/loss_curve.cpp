// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/loss_curve.h"

#include <algorithm>
#include <optional>

#include "bench/run/epoch_rows.h"

namespace ddpbench::bench {
namespace {

// The sums over all ranks after `step`; nothing where one of them has none.
std::optional<LossPoint> sum_after(std::int64_t step, const std::vector<RankCourse>& ranks) {
  LossPoint sum{.step = step};
  for (const RankCourse& rank : ranks) {
    const auto found = std::ranges::lower_bound(rank.points, step, {}, &LossPoint::step);
    if (found == rank.points.end() || found->step != step) return std::nullopt;
    sum.loss_sum += found->loss_sum;
    sum.correct += found->correct;
    sum.counted += found->counted;
  }
  return sum;
}

// One timed step on all ranks, and when its epoch began.
struct StepTimes {
  std::uint32_t epoch = 0;
  double epoch_begin_s = 0, end_s = 0;
};

// The last step of the first `count`; nothing where a rank has not recorded it.
std::optional<StepTimes> times_of_last(std::int64_t count, const std::vector<RankCourse>& ranks) {
  std::optional<StepTimes> all;
  for (const auto& [points, steps] : ranks) {
    const auto last = std::ranges::lower_bound(steps, static_cast<std::uint32_t>(count - 1), {},
                                               &launch::StepRecord::step);
    if (last == steps.end() || last->step + 1 != count) return std::nullopt;
    const auto first = std::ranges::lower_bound(steps, last->epoch, {}, &launch::StepRecord::epoch);
    if (!all) all = StepTimes{last->epoch, first->begin_s, last->end_s};
    all->epoch_begin_s = std::min(all->epoch_begin_s, first->begin_s);
    all->end_s = std::max(all->end_s, last->end_s);
  }
  return all;
}

report::ProgressPoint point_between(const LossPoint& before, const LossPoint& after) {
  const auto counted = static_cast<double>(after.counted - before.counted);
  report::ProgressPoint point;
  point.step = after.step;
  point.train_loss = (after.loss_sum - before.loss_sum) / counted;
  point.train_accuracy = static_cast<double>(after.correct - before.correct) / counted;
  return point;
}

}  // namespace

std::vector<report::ProgressPoint> progress_points(const std::vector<RankCourse>& ranks,
                                                   const std::vector<report::EpochRow>& epochs,
                                                   const std::vector<launch::Pause>& pauses,
                                                   std::int64_t batch) {
  std::vector<report::ProgressPoint> rows;
  if (ranks.empty()) return rows;
  LossPoint before;
  for (const LossPoint& candidate : ranks[0].points) {
    const std::optional<LossPoint> sum = sum_after(candidate.step, ranks);
    if (!sum || sum->counted == before.counted) continue;
    const std::optional<StepTimes> times = times_of_last(sum->step, ranks);
    if (!times || epochs.size() < times->epoch) break;
    report::ProgressPoint& row = rows.emplace_back(point_between(before, *sum));
    row.epoch = static_cast<int>(times->epoch);
    row.samples = row.step * batch;
    for (std::size_t e = 0; e < times->epoch; ++e) row.train_s += epochs[e].time_s;
    row.train_s += running_time(pauses, times->epoch_begin_s, times->end_s);
    before = *sum;
  }
  return rows;
}

}  // namespace ddpbench::bench
