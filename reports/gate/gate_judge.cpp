// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "reports/gate/gate_figures.h"
#include "reports/gate/gate_text.h"
#include "reports/metrics/comparison.h"

namespace ddpbench::report {
namespace {

bool failed_verification(const Run& run) { return run.verification.status == "failed"; }

bool failed(const Run& run) { return run.status == Status::failed || failed_verification(run); }

// False also for `not_applicable`: approximate strategies have no reference.
bool verified(const Run& run) {
  return run.verification.status == "passed" || run.verification.status == "reference";
}

std::string first_reason(std::span<const Run* const> runs, auto holds) {
  const auto found = std::ranges::find_if(runs, [&](const Run* run) { return holds(*run); });
  return found == runs.end() ? "" : unusable_reason(**found);
}

std::ptrdiff_t count(std::span<const Run* const> runs, auto holds) {
  return std::ranges::count_if(runs, [&](const Run* run) { return holds(*run); });
}

void raise(Health& health, GateVerdict floor, std::string note) {
  health.floor = std::max(health.floor, floor);
  health.notes.push_back(std::move(note));
}

constexpr int kMostRepetitions = 1000;  // more are never advised
// A throughput that is batch / median step agrees with that step to rounding.
constexpr double kSame = 1e-9;
// The least number that the correction counts. It keeps false alarms near 2 % of the pairs however
// noisy a machine is (docs/gate.md); alpha = 5 % of the checks would not.
constexpr std::size_t kFewestCounted = 5;

struct Side {
  std::vector<double> values;  // badness
  std::size_t missing = 0;
  std::string reason;  // why the first missing value is missing
};

Side side_of(const GateFigure& figure, std::span<const Run* const> runs) {
  Side side;
  for (const Run* run : runs) {
    const Figure value = figure.value(*run);
    if (value.value && (!figure.logarithmic || *value.value > 0)) {
      side.values.push_back(badness(figure, *value.value));
    } else if (side.missing++ == 0) {
      side.reason = value.value ? "it is not positive" : value.reason;
    }
  }
  return side;
}

bool trained_differently(const PairedCells& cells) {
  return std::ranges::any_of(cells.differing, [](const std::string& key) {
    return key == "steps" || key == "epochs" || key == "global_batch_size";
  });
}

// The verdict on a figure that only new runs lack. A missing loss says that training diverged.
FigureVerdict lost_figure(const GateFigure& figure, const Side& candidate, std::size_t repetitions,
                          const GateOptions& options) {
  FigureVerdict verdict;
  verdict.name = figure.name;
  verdict.minimum_effect = change_of(figure, least_effect(figure, options));
  const bool loss = std::string_view(figure.name) == "final_train_loss";
  verdict.verdict = loss ? GateVerdict::regressed : GateVerdict::inconclusive;
  verdict.note = fmt::format("missing in {} of {} new repetitions ({}), in none of the baseline",
                             candidate.missing, repetitions, candidate.reason);
  return verdict;
}

// One figure of a pair: its badness (gate_figures.h) in each repetition, and how they compare.
struct FigureTest {
  const GateFigure* figure = nullptr;
  std::size_t pair = 0;
  std::vector<double> base, candidate;
  Comparison found;
  bool known = true;                 // false: one repetition a side and too few steps for its noise
  double p_worse = 1, p_better = 1;  // one-sided, Holm-adjusted
  std::optional<FigureVerdict> lost = {};  // only new runs lack the figure: nothing was compared
};

VarianceEstimate noise_within(const GateFigure& figure, const ComparablePair& work) {
  if (work.base.size() != 1 || work.candidate.size() != 1) return {};
  const VarianceEstimate base = variance_within(figure, *work.base.front());
  const VarianceEstimate candidate = variance_within(figure, *work.candidate.front());
  if (base.dof == 0 || candidate.dof == 0) return {};
  return {
      (base.variance * base.dof + candidate.variance * candidate.dof) / (base.dof + candidate.dof),
      base.dof + candidate.dof};
}

// Where each side has one repetition, the noise is that within the runs; a figure that has none
// (memory, loss) counts as constant (docs/gate.md). Times that are equal to the last bit are one
// and the same run.
FigureTest test_of(const GateFigure& figure, std::size_t pair, const ComparablePair& work,
                   std::vector<double> base, std::vector<double> candidate) {
  FigureTest test{&figure, pair, std::move(base), std::move(candidate), {}};
  const bool same_run = test.base.size() == 1 && test.base == test.candidate;
  test.found = compare({test.base, test.candidate},
                       same_run ? VarianceEstimate{} : noise_within(figure, work));
  test.known = test.found.noise_known || same_run || !figure.step_quantile;
  if (test.known) {
    test.p_worse = test.found.p_above();
    test.p_better = test.found.p_below();
  }
  return test;
}

// Appends what is to be tested, or a note why the figure is not compared.
void gather_figure(const GateFigure& figure, std::size_t index, const ComparablePair& work,
                   const GateOptions& options, PairVerdict& pair, std::vector<FigureTest>& tests) {
  Side base = side_of(figure, work.base), candidate = side_of(figure, work.candidate);
  const auto note = [&](const std::string& text) {
    pair.notes.push_back(fmt::format("{} not compared: {}", figure.heading, text));
  };
  if (base.missing > 0) {
    note("in the baseline " + base.reason);
  } else if (figure.needs_equal_steps && trained_differently(*work.cells)) {
    note("the runs saw different numbers of samples");
  } else if (candidate.missing > 0) {
    tests.push_back({&figure, index, {}, {}, {}});
    tests.back().lost = lost_figure(figure, candidate, work.candidate.size(), options);
  } else {
    tests.push_back(
        test_of(figure, index, work, std::move(base.values), std::move(candidate.values)));
  }
}

// The median step's test, if test i is of the throughput and only restates it.
const FigureTest* original(std::span<const FigureTest> tests, std::size_t i) {
  if (std::string_view(tests[i].figure->name) != "samples_per_s") return nullptr;
  for (std::size_t j = i; j-- > 0 && tests[j].pair == tests[i].pair;) {
    if (std::string_view(tests[j].figure->name) != "median_step_s") continue;
    const Comparison &step = tests[j].found, &rate = tests[i].found;
    const bool same = std::abs(step.difference - rate.difference) < kSame &&
                      std::abs(step.deviation - rate.deviation) < kSame;
    return same ? &tests[j] : nullptr;
  }
  return nullptr;
}

void adjust(double FigureTest::*p, std::span<FigureTest* const> family) {
  std::vector<double> values;
  for (const FigureTest* test : family) values.push_back(test->*p);
  if (values.size() < kFewestCounted) values.resize(kFewestCounted, 1);
  const std::vector<double> adjusted = holm_adjusted(values);
  for (std::size_t k = 0; k < family.size(); ++k) family[k]->*p = adjusted[k];
}

// Corrects the p values for the number of figures that vary, and returns it.
std::size_t adjust_family(std::vector<FigureTest>& tests) {
  std::vector<FigureTest*> family;
  std::vector<std::pair<FigureTest*, const FigureTest*>> copies;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    if (tests[i].found.error == 0) continue;
    if (const FigureTest* step = original(tests, i)) {
      copies.emplace_back(&tests[i], step);
    } else {
      family.push_back(&tests[i]);
    }
  }
  if (family.empty()) return 0;
  adjust(&FigureTest::p_worse, family);
  adjust(&FigureTest::p_better, family);
  for (const auto& [copy, step] : copies) {
    copy->p_worse = step->p_worse;
    copy->p_better = step->p_better;
  }
  return std::max(family.size(), kFewestCounted);
}

// The verdict by the rule of docs/gate.md. `effect`: the minimum effect as a difference of badness.
GateVerdict decide(const FigureTest& test, double effect, double alpha) {
  if (!test.known) return GateVerdict::inconclusive;
  const double difference = test.found.difference;
  if (test.p_worse <= alpha && difference > effect) return GateVerdict::regressed;
  if (test.p_better <= alpha && -difference > effect) return GateVerdict::improved;
  const bool excluded = difference + test.found.margin(alpha) < 2 * effect;
  return difference <= effect && excluded ? GateVerdict::pass : GateVerdict::inconclusive;
}

double mean_value(const GateFigure& figure, const std::vector<double>& badnesses) {
  double sum = 0;
  for (const double value : badnesses) sum += value;
  return value_of_badness(figure, sum / static_cast<double>(badnesses.size()));
}

// Sets how many repetitions would tell a difference of 0 from the one found here, or from twice the
// minimum effect if that is more. It is at least 1.5 times what there is: a verdict that stays open
// was unlucky at best. `alpha`: what the correction leaves for one test.
void advise(const FigureTest& test, double effect, double alpha, FigureVerdict& verdict) {
  if (!test.known) {
    verdict.note = test.figure->of_collectives
                       ? "one report a side does not tell the noise: measure both sides several "
                         "times, in turn"
                       : "one repetition a side and too few steps to know the noise: repeat the "
                         "runs";
    verdict.repetitions_needed = 5;
    return;
  }
  const std::size_t made = std::min(test.base.size(), test.candidate.size());
  const auto least = static_cast<int>(made + (made + 1) / 2);
  const auto needed = repetitions_to_decide(
      test.found.deviation, std::max(effect, test.found.difference / 2), alpha, kMostRepetitions);
  if (needed) {
    verdict.repetitions_needed = std::max(*needed, least);
  } else {
    verdict.note = fmt::format("too noisy: more than {} repetitions", kMostRepetitions);
  }
}

FigureVerdict judge(const FigureTest& test, std::size_t family, const GateOptions& options) {
  const GateFigure& figure = *test.figure;
  const Comparison& found = test.found;
  FigureVerdict verdict;
  verdict.name = figure.name;
  const double effect = least_effect(figure, options);
  verdict.minimum_effect = change_of(figure, effect);
  verdict.verdict = decide(test, effect, options.alpha);
  verdict.base = value_of_badness(figure, found.base);
  verdict.candidate = value_of_badness(figure, found.other);
  verdict.base_measured = mean_value(figure, test.base);
  verdict.candidate_measured = mean_value(figure, test.candidate);
  verdict.change = change_of(figure, found.difference);
  verdict.outliers = found.outliers;
  if (test.known) {
    const double margin = found.margin(options.alpha);
    verdict.change_low = change_of(figure, found.difference - margin);
    verdict.change_high = change_of(figure, found.difference + margin);
    verdict.noise = change_of(figure, found.deviation);
    verdict.p_worse = test.p_worse;
    verdict.p_better = test.p_better;
  }
  if (verdict.verdict == GateVerdict::inconclusive) {
    advise(test, effect, options.alpha / static_cast<double>(std::max<std::size_t>(family, 1)),
           verdict);
  }
  return verdict;
}

void note_repetitions(PairVerdict& pair) {
  if (pair.candidate_repetitions == 0) return;
  if (pair.base_repetitions == 1 && pair.candidate_repetitions == 1) {
    if (pair.key.collective) return;  // the verdict says it
    pair.notes.emplace_back(
        "one repetition a side: times are judged by the noise within each run, which does not "
        "show how runs differ from each other; repeat the runs for a sound verdict");
  } else if (pair.base_repetitions == 1 || pair.candidate_repetitions == 1) {
    pair.notes.push_back(fmt::format("only one repetition of the {}",
                                     pair.base_repetitions == 1 ? "baseline" : "new runs"));
  }
}

std::string first_injected(std::span<const Run* const> runs) {
  for (const Run* run : runs) {
    if (!run->injected.empty()) return run->injected;
  }
  return {};
}

PairVerdict open_pair(const ComparablePair& work) {
  const PairedCells& cells = *work.cells;
  PairVerdict pair;
  pair.setting = cells.candidate.setting;
  pair.key = cells.candidate.key.backend.empty() ? cells.base.key : cells.candidate.key;
  pair.base_repetitions = work.base.size();
  pair.candidate_repetitions = work.candidate.size();
  // Imported runs tell the time of their steps alone.
  for (const Run* run : cells.candidate.runs) {
    pair.candidate_s += run->time.total_s.value.value_or(run->time.train_s.value.value_or(0));
  }
  pair.base_injected = first_injected(cells.base.runs);
  pair.candidate_injected = first_injected(cells.candidate.runs);
  for (const std::string& key : cells.differing) {
    pair.notes.push_back(fmt::format("{} differs, as allowed: new {}, baseline {}", key,
                                     cells.candidate.settings.at(key),
                                     cells.base.settings.at(key)));
  }
  Health health = health_of(cells.candidate.runs, cells.base.runs);
  pair.verdict = health.floor;
  pair.notes.insert(pair.notes.end(), health.notes.begin(), health.notes.end());
  note_repetitions(pair);
  return pair;
}

void add_figure(PairVerdict& pair, FigureVerdict verdict) {
  const bool counts =
      gate_figure(verdict.name).decisive || verdict.verdict != GateVerdict::inconclusive;
  if (counts) pair.verdict = std::max(pair.verdict, verdict.verdict);
  if (verdict.outliers > 0 && verdict.name != "samples_per_s") {
    pair.notes.push_back(fmt::format(
        "{}: {} far from the others, drawn in; as measured, {}", figure_heading(verdict),
        counted(verdict.outliers, "repetition"), measured_text(verdict)));
  }
  pair.figures.push_back(std::move(verdict));
}

}  // namespace

std::string unusable_reason(const Run& run) {
  if (failed_verification(run)) {
    return run.verification.reason.empty() ? "verification failed"
                                           : "verification failed: " + run.verification.reason;
  }
  if (is_complete(run)) return run.step.time_s ? "" : "no step was timed";
  const std::string& why = run.error ? run.error->message : run.reason;
  return why.empty() ? std::string(to_string(run.status))
                     : fmt::format("{}: {}", to_string(run.status), why);
}

std::vector<const Run*> usable_runs(std::span<const Run* const> runs) {
  std::vector<const Run*> usable;
  std::ranges::copy_if(runs, std::back_inserter(usable),
                       [](const Run* run) { return unusable_reason(*run).empty(); });
  return usable;
}

Health health_of(std::span<const Run* const> candidate, std::span<const Run* const> base) {
  Health health;
  const auto unwell = [](const Run& run) { return !unusable_reason(run).empty() && !failed(run); };
  if (const auto failures = count(candidate, failed); failures > 0) {
    const auto before = count(base, failed);
    raise(health, before == 0 ? GateVerdict::regressed : GateVerdict::inconclusive,
          fmt::format("{} of {} new repetitions failed ({}), {} of {} of the baseline", failures,
                      candidate.size(), first_reason(candidate, failed), before, base.size()));
  }
  if (const auto missing = count(candidate, unwell); missing > 0) {
    raise(health, GateVerdict::inconclusive,
          fmt::format("{} of {} new repetitions have no figures ({})", missing, candidate.size(),
                      first_reason(candidate, unwell)));
  }
  if (base.size() != usable_runs(base).size()) {
    health.notes.push_back(fmt::format(
        "{} of {} repetitions of the baseline have no figures ({})",
        base.size() - usable_runs(base).size(), base.size(),
        first_reason(base, [](const Run& run) { return !unusable_reason(run).empty(); })));
  }
  const auto unverified = [](const Run& run) {
    return unusable_reason(run).empty() && !verified(run);
  };
  if (count(candidate, unverified) > 0) {
    const bool worse = count(base, unverified) == 0;
    raise(health, worse ? GateVerdict::inconclusive : GateVerdict::pass,
          worse ? "the new runs are not verified, the baseline is" : "not verified on either side");
  }
  return health;
}

std::vector<PairVerdict> judge_pairs(std::span<const ComparablePair> works,
                                     const GateOptions& options, std::size_t& family) {
  std::vector<PairVerdict> pairs;
  std::vector<FigureTest> tests;
  for (const ComparablePair& work : works) {
    pairs.push_back(open_pair(work));
    if (work.candidate.empty()) continue;
    for (const GateFigure& figure : gate_figures()) {
      if (figure.of_collectives != work.cells->candidate.key.collective) continue;
      gather_figure(figure, pairs.size() - 1, work, options, pairs.back(), tests);
    }
  }
  family = adjust_family(tests);
  for (const FigureTest& test : tests) {
    add_figure(pairs[test.pair], test.lost ? *test.lost : judge(test, family, options));
  }
  return pairs;
}

}  // namespace ddpbench::report
