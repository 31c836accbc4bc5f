// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/steady.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr double kSteadyTolerance = 0.02;
constexpr std::size_t kSmallestWindow = 5, kLargestWindow = 25;
constexpr std::size_t kFewestForDrift = 60;  // 20 in each third

void append_changes(std::span<const double> window, std::vector<double>& changes) {
  for (std::size_t i = 1; i < window.size(); ++i) {
    changes.push_back(std::abs(window[i] - window[i - 1]));
  }
}

// The standard deviation of the noise in both windows, from the changes between neighbours. A trend
// hardly moves these, and their median ignores outliers. For normal noise that median is 0.6745 *
// sqrt(2) * sigma.
double noise_sigma(std::span<const double> earlier, std::span<const double> later) {
  std::vector<double> changes;
  append_changes(earlier, changes);
  append_changes(later, changes);
  return changes.empty() ? 0 : median(std::move(changes)) / (0.6745 * std::sqrt(2.0));
}

double level(std::span<const double> window) { return median({window.begin(), window.end()}); }

}  // namespace

bool LevelChange::exceeds(double tolerance) const {
  return std::abs(ratio) > std::max(tolerance, noise);
}

LevelChange level_change(std::span<const double> earlier, std::span<const double> later) {
  ensure(!earlier.empty() && !later.empty(), "levels of empty windows");
  const double before = level(earlier);
  if (!(before > 0)) return {};
  // A median of n normal values has the standard error 1.2533 sigma / sqrt(n).
  const double standard_error =
      1.2533 * noise_sigma(earlier, later) *
      std::sqrt(1 / static_cast<double>(earlier.size()) + 1 / static_cast<double>(later.size()));
  return {level(later) / before - 1, 2 * standard_error / before};
}

bool is_steady(std::span<const double> step_s) {
  if (step_s.size() < kFewestForSteady) return false;
  const std::size_t window = std::clamp(step_s.size() / 4, kSmallestWindow, kLargestWindow);
  const auto last = step_s.last(2 * window);
  return !level_change(last.first(window), last.last(window)).exceeds(kSteadyTolerance);
}

Figure step_drift(std::span<const double> step_s) {
  if (step_s.size() < kFewestForDrift) {
    return Figure::missing(
        fmt::format("drift needs {} timed steps, there are {}", kFewestForDrift, step_s.size()));
  }
  const std::size_t third = step_s.size() / 3;
  const LevelChange change = level_change(step_s.first(third), step_s.last(third));
  if (!change.exceeds(0)) return Figure::missing("no change beyond chance");
  return Figure::of(change.ratio);
}

}  // namespace ddpbench::report
