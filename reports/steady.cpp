// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/steady.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/runtime/error.h"
#include "reports/metrics.h"

namespace ddpbench::report {
namespace {

constexpr double kSteadyTolerance = 0.02;
constexpr std::size_t kSmallestWindow = 5, kLargestWindow = 25;
constexpr std::size_t kFewestForDrift = 60;  // 20 a third

struct Level {
  double median, standard_error;
};

// Of a normal sample of size n the median's standard error is 1.2533 sigma / sqrt(n), and sigma is
// IQR / 1.349; both by quantiles, so that outliers do not matter.
Level level(std::span<const double> window) {
  const StepStatistics s = summarize({window.begin(), window.end()});
  const double sigma = s.iqr / 1.349;
  return {s.median, 1.2533 * sigma / std::sqrt(static_cast<double>(window.size()))};
}

}  // namespace

bool LevelChange::exceeds(double tolerance) const {
  return std::abs(ratio) > std::max(tolerance, noise);
}

LevelChange level_change(std::span<const double> earlier, std::span<const double> later) {
  ensure(!earlier.empty() && !later.empty(), "levels of empty windows");
  const Level before = level(earlier);
  const Level after = level(later);
  if (!(before.median > 0)) return {};
  return {after.median / before.median - 1,
          2 * std::hypot(before.standard_error, after.standard_error) / before.median};
}

bool is_steady(std::span<const double> step_s) {
  if (step_s.size() < kFewestForSteady) return false;
  const std::size_t window = std::clamp(step_s.size() / 3, kSmallestWindow, kLargestWindow);
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
