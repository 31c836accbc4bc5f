// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/sweep_schedule.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::bench {
SchedulePolicy schedule_policy(const Options& options) {
  SchedulePolicy policy;
  policy.interleaved = options.order == "interleaved";
  policy.seed = options.seed;
  policy.repetitions = options.repetitions;
  if (options.until_ci) policy.wanted_width = options.until_ci->value / 100;
  policy.max_repetitions = options.max_repetitions;
  policy.max_seconds = options.max_minutes * 60;
  return policy;
}

SweepSchedule::SweepSchedule(std::vector<std::size_t> cells, const SchedulePolicy& policy)
    : cells_(std::move(cells)), policy_(policy), next_round_(policy.first_repetition) {}

void SweepSchedule::record(Slot slot, std::optional<double> step_s) { results_[slot] = step_s; }

std::optional<Slot> SweepSchedule::next(double elapsed_s) {
  return policy_.interleaved ? next_interleaved(elapsed_s) : next_sequential(elapsed_s);
}

std::optional<double> SweepSchedule::interval_width(std::size_t cell) const {
  std::vector<double> times;
  for (const auto& [slot, step_s] : results_) {
    if (slot.cell == cell && step_s) times.push_back(*step_s);
  }
  const auto interval = report::median_interval(std::move(times));
  if (!interval) return std::nullopt;
  return interval->relative_width();
}

bool SweepSchedule::precise(std::size_t cell) const {
  const auto width = interval_width(cell);
  return width && *width <= *policy_.wanted_width;
}

std::map<std::size_t, int> SweepSchedule::runs_left(double elapsed_s) const {
  std::map<std::size_t, int> left;
  for (const std::size_t cell : cells_) {
    int repetition = policy_.first_repetition;
    const int planned = repetition + policy_.repetitions;
    int missing = 0;
    for (; repetition < planned || results_.contains({cell, repetition}); ++repetition) {
      if (!results_.contains({cell, repetition})) ++missing;
    }
    if (missing == 0 && wanted(cell, repetition, elapsed_s)) missing = 1;
    if (missing > 0) left[cell] = missing;
  }
  // What a round has begun, it makes, however long that takes.
  for (const Slot& slot : round_) {
    if (!results_.contains(slot)) left.try_emplace(slot.cell, 1);
  }
  return left;
}

std::map<std::size_t, int> SweepSchedule::most_runs_left(double elapsed_s) const {
  std::map<std::size_t, int> left = runs_left(elapsed_s);
  const bool late = policy_.max_seconds > 0 && elapsed_s >= policy_.max_seconds;
  if (!policy_.wanted_width || late) return left;
  for (auto& [cell, runs] : left) {
    if (failed(cell)) continue;
    const auto made = std::ranges::count_if(
        results_, [&](const auto& result) { return result.first.cell == cell; });
    runs = std::max(runs, policy_.max_repetitions - static_cast<int>(made));
  }
  return left;
}

bool SweepSchedule::failed(std::size_t cell) const {
  return std::ranges::any_of(
      results_, [&](const auto& result) { return result.first.cell == cell && !result.second; });
}

bool SweepSchedule::wanted(std::size_t cell, int repetition, double elapsed_s) const {
  const int made = repetition - policy_.first_repetition;
  if (made < policy_.repetitions) return true;
  if (!policy_.wanted_width || made >= policy_.max_repetitions) return false;
  if (policy_.max_seconds > 0 && elapsed_s >= policy_.max_seconds) return false;
  return !failed(cell) && !precise(cell);
}

std::vector<std::size_t> SweepSchedule::order_of(int round) const {
  std::vector<std::size_t> order = cells_;
  if (policy_.repetitions == 1 && !policy_.wanted_width) return order;
  // Seed and round are mixed apart, so that neighbouring ones have nothing in common. The order
  // that a seed names must not change. The modulo's bias is below 2^-50 for any number of cells.
  SplitMix64 random(SplitMix64(policy_.seed).next() ^
                    SplitMix64(~static_cast<std::uint64_t>(round)).next());
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
  return order;
}

std::optional<Slot> SweepSchedule::next_interleaved(double elapsed_s) {
  while (round_.empty()) {
    bool any = false;
    for (const std::size_t cell : order_of(next_round_)) {
      const Slot slot{cell, next_round_};
      const bool made = results_.contains(slot);
      any = any || made || wanted(cell, next_round_, elapsed_s);
      if (!made && wanted(cell, next_round_, elapsed_s)) round_.push_back(slot);
    }
    if (!any) return std::nullopt;
    ++next_round_;
  }
  const Slot slot = round_.front();
  round_.pop_front();
  return slot;
}

std::optional<Slot> SweepSchedule::next_sequential(double elapsed_s) {
  for (; current_ < cells_.size(); ++current_, next_round_ = policy_.first_repetition) {
    for (; results_.contains({cells_[current_], next_round_}) ||
           wanted(cells_[current_], next_round_, elapsed_s);
         ++next_round_) {
      if (!results_.contains({cells_[current_], next_round_})) {
        return Slot{cells_[current_], next_round_++};
      }
    }
  }
  return std::nullopt;
}

}  // namespace ddpbench::bench
