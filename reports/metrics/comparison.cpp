// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/comparison.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/ranges.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

using StudentT = boost::math::students_t;

constexpr std::size_t kFewestForOutliers = 4;
constexpr double kMadToDeviation = 1.4826;    // 1 / the normal distribution's quantile 0.75
constexpr double kFar = 3;                    // deviations
constexpr std::size_t kMostOutliers = 4;      // at most one in so many values of a side
constexpr double kNoVariance = 1e-20;         // less is the rounding error of equal values
constexpr double kPowerQuantile = 1.2815516;  // normal, of the 90 % in repetitions_to_decide

double upper_quantile(double tail, int dof) {
  return boost::math::quantile(boost::math::complement(StudentT(dof), tail));
}

std::vector<double> logarithms(const std::vector<double>& values) {
  return mapped(values, [](double value) { return std::log(value); });
}

}  // namespace

VarianceEstimate pooled_variance(std::span<const std::vector<double>> groups) {
  double squares = 0;
  int dof = 0;
  for (const std::vector<double>& group : groups) {
    if (group.size() < 2) continue;
    const double middle = mean(group);
    for (const double value : group) squares += (value - middle) * (value - middle);
    dof += static_cast<int>(group.size()) - 1;
  }
  return {dof > 0 ? squares / dof : 0, dof};
}

int draw_in_outliers(std::span<std::vector<double>> sides) {
  std::vector<double> distances, middles;
  for (const std::vector<double>& side : sides) {
    if (side.size() < kFewestForOutliers) return 0;
    middles.push_back(median(side));
    for (const double value : side) distances.push_back(std::abs(value - middles.back()));
  }
  const auto count = static_cast<double>(distances.size());
  const double far = kFar * kMadToDeviation * median(std::move(distances)) *
                     std::sqrt(count / (count - static_cast<double>(sides.size())));
  if (far == 0) return 0;  // most values are equal: no scale for what is far
  std::size_t outliers = 0;
  for (std::size_t s = 0; s < sides.size(); ++s) {
    const auto beyond = static_cast<std::size_t>(std::ranges::count_if(
        sides[s], [&](double value) { return std::abs(value - middles[s]) > far; }));
    // A side with many far values is noisier than the other, not disturbed.
    if (beyond > sides[s].size() / kMostOutliers) return 0;
    outliers += beyond;
  }
  for (std::size_t s = 0; s < sides.size(); ++s) {
    for (double& value : sides[s]) value = std::clamp(value, middles[s] - far, middles[s] + far);
  }
  return static_cast<int>(outliers);
}

double Comparison::p_above() const {
  if (error == 0) return difference > 0 ? 0 : 1;
  return boost::math::cdf(StudentT(dof), -difference / error);
}

double Comparison::p_below() const {
  if (error == 0) return difference < 0 ? 0 : 1;
  return boost::math::cdf(StudentT(dof), difference / error);
}

double Comparison::margin(double tail) const {
  return error > 0 ? upper_quantile(tail, dof) * error : 0;
}

Comparison compare(std::vector<std::vector<double>> sides, VarianceEstimate within) {
  ensure(sides.size() == 1 || sides.size() == 2, "a comparison of {} sides", sides.size());
  Comparison result;
  result.outliers = draw_in_outliers(sides);
  result.other = mean(sides.back());
  if (sides.size() == 2) result.base = mean(sides.front());
  result.difference = result.other - result.base;
  VarianceEstimate variance = pooled_variance(sides);
  if (variance.dof == 0) variance = within;
  result.noise_known = variance.dof > 0;
  if (variance.variance < kNoVariance) return result;
  double per_variance = 0;
  for (const auto& side : sides) per_variance += 1.0 / static_cast<double>(side.size());
  result.deviation = std::sqrt(variance.variance);
  result.error = result.deviation * std::sqrt(per_variance);
  result.dof = variance.dof;
  return result;
}

RatioInterval compare_ratios(const std::vector<double>& values, const std::vector<double>& base) {
  std::vector<std::vector<double>> sides;
  if (!base.empty()) sides.push_back(logarithms(base));
  sides.push_back(logarithms(values));
  const Comparison found = compare(std::move(sides));
  RatioInterval result{std::exp(found.difference), {}, {}};
  if (!found.noise_known) return result;
  const double margin = found.margin((1 - kConfidence) / 2);
  result.low = std::exp(found.difference - margin);
  result.high = std::exp(found.difference + margin);
  return result;
}

std::vector<double> holm_adjusted(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [p](std::size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double scaled = p[order[rank]] * static_cast<double>(p.size() - rank);
    largest = std::max(largest, std::min(scaled, 1.0));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

// The gate passes an estimate d <= effect with d + t s sqrt(2/n) < 2 effect, and flags d > effect
// with d > t s sqrt(2/n). These are the same two conditions for true differences of 0 and 2 effect.
std::optional<int> repetitions_to_decide(double deviation, double effect, double alpha, int limit) {
  ensure(effect > 0, "minimum effect {}", effect);
  const auto decides = [=](int n) {
    const double error = deviation * std::sqrt(2.0 / n);
    return kPowerQuantile * error <= effect &&
           (upper_quantile(alpha, 2 * n - 2) + kPowerQuantile) * error <= 2 * effect;
  };
  if (!decides(limit)) return std::nullopt;
  int below = 1, enough = limit;
  while (enough - below > 1) {
    const int middle = below + (enough - below) / 2;
    (decides(middle) ? enough : below) = middle;
  }
  return enough;
}

}  // namespace ddpbench::report
