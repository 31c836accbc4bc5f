// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

namespace ddpbench::report {
namespace {

// A smaller variance is the rounding error of equal values.
constexpr double kNoVariance = 1e-20;
// A throughput that is batch / median step agrees with that step to rounding.
constexpr double kSame = 1e-9;

// The least number that the correction counts. It keeps false alarms near 2 % of the pairs however
// noisy a machine is (docs/gate.md); alpha = 5 % of the checks would not.
constexpr std::size_t kFewestCounted = 5;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

bool varies(const FigureTest& test) { return test.dof > 0 && test.error > 0; }

// The variance between repetitions. Where each side has one value, that within the runs; a figure
// that has none (memory, loss) counts as constant (docs/gate.md). Times that are equal to the last
// bit are one and the same run.
VarianceEstimate own_variance(const FigureSamples& samples, FigureTest& test) {
  const std::vector<double> sides[] = {samples.base, samples.candidate};
  if (samples.base == samples.candidate && samples.base.size() == 1) return {};
  VarianceEstimate estimate = pooled_variance(sides);
  if (estimate.dof == 0 && samples.figure->step_quantile) {
    test.from_within = true;
    estimate = samples.within;
    test.known = estimate.dof > 0;
  }
  if (estimate.variance < kNoVariance) estimate.variance = 0;
  return estimate;
}

// Moderates the variances of each figure over all pairs.
void moderate(std::span<const FigureSamples> samples, std::span<const FigureTest> tests,
              std::vector<VarianceEstimate>& variances) {
  for (const GateFigure& figure : gate_figures()) {
    std::vector<std::size_t> members;
    std::vector<VarianceEstimate> own;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].figure != &figure || tests[i].from_within) continue;
      members.push_back(i);
      own.push_back(variances[i]);
    }
    own = moderated_variances(std::move(own));
    for (std::size_t k = 0; k < members.size(); ++k) variances[members[k]] = own[k];
  }
}

void fill_test(const FigureSamples& samples, const VarianceEstimate& variance, FigureTest& test) {
  test.base = mean(samples.base);
  test.candidate = mean(samples.candidate);
  test.difference = test.candidate - test.base;
  test.deviation = std::sqrt(variance.variance);
  test.dof = variance.variance > 0 ? variance.dof : 0;
  test.error = test.deviation * std::sqrt(1.0 / static_cast<double>(samples.base.size()) +
                                          1.0 / static_cast<double>(samples.candidate.size()));
  if (!test.known) return;
  if (!varies(test)) {
    test.p_worse = test.difference > 0 ? 0 : 1;
    test.p_better = test.difference < 0 ? 0 : 1;
    return;
  }
  const double t = test.difference / test.error;
  test.p_worse = student_t_cdf(-t, test.dof);
  test.p_better = student_t_cdf(t, test.dof);
}

// The index of the median step's test, if test i is of the throughput and only restates it.
std::optional<std::size_t> original(std::span<const FigureSamples> samples,
                                    std::span<const FigureTest> tests, std::size_t i) {
  if (std::string_view(samples[i].figure->name) != "samples_per_s") return std::nullopt;
  for (std::size_t j = i; j-- > 0 && samples[j].pair == samples[i].pair;) {
    if (std::string_view(samples[j].figure->name) != "median_step_s") continue;
    const bool same = std::abs(tests[j].difference - tests[i].difference) < kSame &&
                      std::abs(tests[j].deviation - tests[i].deviation) < kSame;
    return same ? std::optional(j) : std::nullopt;
  }
  return std::nullopt;
}

void adjust(double FigureTest::*p, std::span<const std::size_t> family,
            std::vector<FigureTest>& tests) {
  std::vector<double> values;
  for (const std::size_t i : family) values.push_back(tests[i].*p);
  if (!values.empty() && values.size() < kFewestCounted) values.resize(kFewestCounted, 1);
  const std::vector<double> adjusted = holm_adjusted(values);
  for (std::size_t k = 0; k < family.size(); ++k) tests[family[k]].*p = adjusted[k];
}

std::size_t adjust_family(std::span<const FigureSamples> samples, std::vector<FigureTest>& tests) {
  std::vector<std::size_t> family;
  std::vector<std::pair<std::size_t, std::size_t>> copies;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    if (!varies(tests[i])) continue;
    if (const auto j = original(samples, tests, i)) {
      copies.emplace_back(i, *j);
    } else {
      family.push_back(i);
    }
  }
  adjust(&FigureTest::p_worse, family, tests);
  adjust(&FigureTest::p_better, family, tests);
  for (const auto& [copy, source] : copies) {
    tests[copy].p_worse = tests[source].p_worse;
    tests[copy].p_better = tests[source].p_better;
  }
  return family.empty() ? 0 : std::max(family.size(), kFewestCounted);
}

}  // namespace

FigureTests test_figures(std::span<const FigureSamples> given) {
  std::vector<FigureSamples> samples(given.begin(), given.end());
  std::vector<FigureTest> tests(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    tests[i].outliers = draw_in_outliers(samples[i].base, samples[i].candidate);
  }
  std::vector<VarianceEstimate> variances;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    variances.push_back(own_variance(samples[i], tests[i]));
  }
  moderate(samples, tests, variances);
  for (std::size_t i = 0; i < samples.size(); ++i) fill_test(samples[i], variances[i], tests[i]);
  const std::size_t family = adjust_family(samples, tests);
  return {std::move(tests), family};
}

GateVerdict decide(const FigureTest& test, double effect, double alpha) {
  if (!test.known) return GateVerdict::inconclusive;
  if (test.p_worse <= alpha && test.difference > effect) return GateVerdict::regressed;
  if (test.p_better <= alpha && -test.difference > effect) return GateVerdict::improved;
  const double margin = test.dof > 0 ? student_t_quantile(1 - alpha, test.dof) * test.error : 0;
  const bool excluded = test.difference + margin < 2 * effect;
  return test.difference <= effect && excluded ? GateVerdict::pass : GateVerdict::inconclusive;
}

}  // namespace ddpbench::report
