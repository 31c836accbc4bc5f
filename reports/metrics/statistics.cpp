// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

// From these degrees of freedom on t counts as normal, as the series would cost more than it gains.
constexpr int kNormalDof = 2000;
constexpr std::size_t kFewestToModerate = 3;
constexpr std::size_t kFewestForOutliers = 4;
constexpr double kMadToDeviation = 1.4826;  // 1 / normal_quantile(0.75)
constexpr double kFar = 3;                  // deviations
constexpr std::size_t kMostOutliers = 4;    // at most one in so many values of a side
constexpr double kPower = 0.9;              // the probability in repetitions_to_decide

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// P(|T| <= t), by 26.7.3 for odd and 26.7.4 for even degrees of freedom.
double student_t_central(double t, int dof) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(dof)));
  const double cosine2 = std::cos(theta) * std::cos(theta);
  const bool odd = dof % 2 == 1;
  double term = odd ? std::cos(theta) : 1;
  double sum = dof == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= dof - 2; k += 2) {
    term *= cosine2 * (k - 1) / k;
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (theta + std::sin(theta) * sum) : std::sin(theta) * sum;
}

// The argument at which the increasing `f` crosses `target`.
double bisect(const std::function<double(double)>& f, double target) {
  double low = -1, high = 1;
  while (f(low) > target) low *= 2;
  while (f(high) < target) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (f(middle) < target ? low : high) = middle;
  }
  return (low + high) / 2;
}

bool takes_part(const VarianceEstimate& estimate) {
  return estimate.dof > 0 && estimate.variance > 0;
}

struct Prior {
  double variance = 0;
  double dof = 0;  // infinite: all estimates are of one variance
};

Prior fit_prior(std::span<const VarianceEstimate> estimates) {
  std::vector<double> e;
  double expected = 0;  // expected spread of the logarithms by chance
  for (const VarianceEstimate& estimate : estimates) {
    const double half = estimate.dof / 2.0;
    e.push_back(std::log(estimate.variance) - digamma(half) + std::log(half));
    expected += trigamma(half);
  }
  const auto count = static_cast<double>(e.size());
  const double mean = std::accumulate(e.begin(), e.end(), 0.0) / count;
  double spread = 0;
  for (const double value : e) spread += (value - mean) * (value - mean);
  const double excess = spread / (count - 1) - expected / count;
  if (excess <= 0) return {std::exp(mean), INFINITY};
  const double half = inverse_trigamma(excess);
  return {std::exp(mean + digamma(half) - std::log(half)), 2 * half};
}

}  // namespace

double student_t_cdf(double t, int dof) {
  ensure(dof >= 1, "Student's t with {} degrees of freedom", dof);
  if (dof >= kNormalDof) return normal_cdf(t);
  const double tail = (1 - student_t_central(std::abs(t), dof)) / 2;
  return t < 0 ? tail : 1 - tail;
}

double student_t_quantile(double p, int dof) {
  ensure(p > 0 && p < 1, "quantile {} of Student's t", p);
  return bisect([dof](double t) { return student_t_cdf(t, dof); }, p);
}

double normal_quantile(double p) {
  ensure(p > 0 && p < 1, "quantile {} of the normal distribution", p);
  return bisect(normal_cdf, p);
}

double digamma(double x) {
  double sum = 0;
  for (; x < 10; ++x) sum -= 1 / x;
  const double r = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - r * (1.0 / 12 - r * (1.0 / 120 - r / 252));
}

double trigamma(double x) {
  double sum = 0;
  for (; x < 10; ++x) sum += 1 / (x * x);
  const double r = 1 / (x * x);
  return sum + 1 / x + r / 2 + r / x * (1.0 / 6 - r * (1.0 / 30 - r / 42));
}

double inverse_trigamma(double y) {
  ensure(y > 0, "inverse trigamma of {}", y);
  // trigamma falls from infinity to 0 and lies above 1/x: bisect in log x.
  return std::exp(bisect([](double log_x) { return -trigamma(std::exp(log_x)); }, -y));
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

VarianceEstimate pooled_variance(std::span<const std::vector<double>> groups) {
  double squares = 0;
  int dof = 0;
  for (const std::vector<double>& group : groups) {
    if (group.size() < 2) continue;
    const double mean =
        std::accumulate(group.begin(), group.end(), 0.0) / static_cast<double>(group.size());
    for (const double value : group) squares += (value - mean) * (value - mean);
    dof += static_cast<int>(group.size()) - 1;
  }
  return {dof > 0 ? squares / dof : 0, dof};
}

int draw_in_outliers(std::vector<double>& a, std::vector<double>& b) {
  if (std::min(a.size(), b.size()) < kFewestForOutliers) return 0;
  std::vector<double> distances;
  const double middles[] = {median(a), median(b)};
  for (const double value : a) distances.push_back(std::abs(value - middles[0]));
  for (const double value : b) distances.push_back(std::abs(value - middles[1]));
  const auto count = static_cast<double>(distances.size());
  const double deviation =
      kMadToDeviation * median(std::move(distances)) * std::sqrt(count / (count - 2));
  if (deviation == 0) return 0;  // most values are equal: no scale for what is far
  const std::pair<std::vector<double>*, double> sides[] = {{&a, middles[0]}, {&b, middles[1]}};
  int outliers = 0;
  for (const auto& [side, middle] : sides) {
    const auto far = std::ranges::count_if(*side, [&, middle = middle](double value) {
      return std::abs(value - middle) > kFar * deviation;
    });
    // A side with many far values is noisier than the other, not disturbed.
    if (static_cast<std::size_t>(far) > side->size() / kMostOutliers) return 0;
    outliers += static_cast<int>(far);
  }
  for (const auto& [side, middle] : sides) {
    for (double& value : *side) {
      value = std::clamp(value, middle - kFar * deviation, middle + kFar * deviation);
    }
  }
  return outliers;
}

std::vector<VarianceEstimate> moderated_variances(std::vector<VarianceEstimate> own) {
  std::vector<VarianceEstimate> parts;
  std::ranges::copy_if(own, std::back_inserter(parts), takes_part);
  if (parts.size() < kFewestToModerate) return own;
  const Prior prior = fit_prior(parts);
  for (VarianceEstimate& estimate : own) {
    if (!takes_part(estimate)) continue;
    const double borrowed = std::floor(std::min<double>(prior.dof, estimate.dof));
    const double total = borrowed + estimate.dof;
    estimate.variance = (borrowed * prior.variance + estimate.dof * estimate.variance) / total;
    estimate.dof = static_cast<int>(total);
  }
  return own;
}

// The gate passes an estimate d <= effect with d + t s sqrt(2/n) < 2 effect, and flags d > effect
// with d > t s sqrt(2/n). These are the same two conditions for true differences of 0 and 2 effect.
std::optional<int> repetitions_to_decide(double deviation, double effect, double alpha, int limit) {
  ensure(effect > 0, "minimum effect {}", effect);
  const double z = normal_quantile(kPower);
  const auto decides = [=](int n) {
    const double error = deviation * std::sqrt(2.0 / n);
    return z * error <= effect &&
           (student_t_quantile(1 - alpha, 2 * n - 2) + z) * error <= 2 * effect;
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
