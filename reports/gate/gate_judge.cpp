// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From pairs to verdicts: collects their figures, tests all of them together, as the correction
// counts them all, and judges each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

#include "base/ranges.h"
#include "base/text.h"
#include "reports/gate/gate_parts.h"
#include "reports/metrics/comparison.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr int kMostRepetitions = 1000;  // more are never advised
// A throughput that is batch / median step agrees with that step to rounding.
constexpr double kSame = 1e-9;
// The least number that the correction counts. It keeps false alarms near 2 % of the pairs however
// noisy a machine is (docs/gate.md); alpha = 5 % of the checks would not.
constexpr std::size_t kFewestCounted = 5;

using Runs = std::vector<const Run*>;

Runs which(const Runs& runs, auto holds) {
  Runs chosen;
  std::ranges::copy_if(runs, std::back_inserter(chosen),
                       [&](const Run* run) { return holds(*run); });
  return chosen;
}

bool failed_verification(const Run& run) { return run.verification.status == "failed"; }

bool failed(const Run& run) { return run.status == Status::failed || failed_verification(run); }

// Why the figures of `run` are not compared; empty when they are.
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

bool usable(const Run& run) { return unusable_reason(run).empty(); }

// An approximate strategy has no reference, so it is not verified.
bool unverified(const Run& run) {
  return usable(run) && run.verification.status != "passed" &&
         run.verification.status != "reference";
}

// Raises the verdict to the mildest one that the runs allow, and notes why. A failure is REGRESSED
// if the baseline had none. Other failures, skipped or interrupted runs, and runs that are not
// verified although the baseline is, are INCONCLUSIVE. The first note is one with that verdict.
void judge_health(const Runs& candidate, const Runs& base, PairVerdict& pair) {
  const auto note = [&pair](GateVerdict floor, std::string text) {
    pair.verdict = std::max(pair.verdict, floor);
    pair.notes.push_back(std::move(text));
  };
  if (const Runs failures = which(candidate, failed); !failures.empty()) {
    const std::size_t before = which(base, failed).size();
    note(before == 0 ? GateVerdict::regressed : GateVerdict::inconclusive,
         fmt::format("{} of {} new repetitions failed ({}), {} of {} of the baseline",
                     failures.size(), candidate.size(), unusable_reason(*failures.front()), before,
                     base.size()));
  }
  const auto unwell = [](const Run& run) { return !usable(run) && !failed(run); };
  if (const Runs missing = which(candidate, unwell); !missing.empty()) {
    note(GateVerdict::inconclusive,
         fmt::format("{} of {} new repetitions have no figures ({})", missing.size(),
                     candidate.size(), unusable_reason(*missing.front())));
  }
  if (!which(candidate, unverified).empty()) {
    if (which(base, unverified).empty())
      note(GateVerdict::inconclusive, "the new runs are not verified, the baseline is");
    else
      note(GateVerdict::pass, "not verified on either side");
  }
  if (const Runs lost = which(base, std::not_fn(usable)); !lost.empty()) {
    note(GateVerdict::pass, fmt::format("{} of {} repetitions of the baseline have no figures ({})",
                                        lost.size(), base.size(), unusable_reason(*lost.front())));
  }
}

std::string first_injected(const Runs& runs) {
  const Runs injected = which(runs, [](const Run& run) { return !run.injected.empty(); });
  return injected.empty() ? "" : injected.front()->injected;
}

PairVerdict open_pair(const PairedCells& cells) {
  const Runs &candidate = cells.candidate.runs, &base = cells.base.runs;
  PairVerdict pair;
  pair.setting = cells.candidate.setting;
  pair.key = cells.candidate.key.backend.empty() ? cells.base.key : cells.candidate.key;
  pair.base_repetitions = which(base, usable).size();
  pair.candidate_repetitions = which(candidate, usable).size();
  // Imported runs tell the time of their steps alone.
  for (const Run* run : candidate) {
    pair.candidate_s += run->time.total_s.value.value_or(run->time.train_s.value.value_or(0));
  }
  pair.base_injected = first_injected(base);
  pair.candidate_injected = first_injected(candidate);
  judge_health(candidate, base, pair);
  for (const std::string& key : cells.differing) {
    pair.notes.push_back(fmt::format("{} differs, as allowed: new {}, baseline {}", key,
                                     cells.candidate.settings.at(key),
                                     cells.base.settings.at(key)));
  }
  const bool one_new = pair.candidate_repetitions == 1, one_old = pair.base_repetitions == 1;
  if (one_new && one_old && !pair.key.collective) {
    pair.notes.emplace_back(
        "one repetition a side: times are judged by the noise within each run, which does not "
        "show how runs differ from each other; repeat the runs for a sound verdict");
  } else if (one_new != one_old && pair.candidate_repetitions > 0) {
    pair.notes.push_back(
        fmt::format("only one repetition of the {}", one_old ? "baseline" : "new runs"));
  }
  return pair;
}

struct Side {
  std::vector<double> values;  // badness
  std::size_t missing = 0;
  std::string reason;  // why the first missing value is missing
};

Side side_of(const GateFigure& figure, const Runs& runs) {
  Side side;
  for (const Run* run : runs) {
    const Figure value = figure.value(*run);
    if (value.value && (figure.is(GateFigure::kByDifference) || *value.value > 0)) {
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

// One figure of a pair: its badness (gate_parts.h) in each repetition, and how they compare.
// Nothing was compared where only the new runs lack it: there are no values, and `verdict` is done.
struct FigureTest {
  const GateFigure* figure = nullptr;
  std::size_t pair = 0;
  FigureVerdict verdict;
  std::vector<double> base, candidate;
  Comparison found;
  bool known = true;                 // false: one repetition a side and too few steps for its noise
  double p_worse = 1, p_better = 1;  // one-sided, Holm-adjusted
  const FigureTest* original = nullptr;  // the test of the median step that this one restates
};

VarianceEstimate noise_within(const GateFigure& figure, const Run& base, const Run& candidate) {
  const VarianceEstimate a = variance_within(figure, base), b = variance_within(figure, candidate);
  const int dof = a.dof + b.dof;
  if (a.dof == 0 || b.dof == 0) return {};
  return {(a.variance * a.dof + b.variance * b.dof) / dof, dof};
}

// Where each side has one repetition, the noise is that within the runs; a figure that has none
// (memory, loss) counts as constant (docs/gate.md). Times that are equal to the last bit are one
// and the same run.
void compare_sides(const Runs& base, const Runs& candidate, FigureTest& test) {
  const bool single = base.size() == 1 && candidate.size() == 1;
  const bool same_run = single && test.base == test.candidate;
  test.found =
      compare({test.base, test.candidate},
              single && !same_run ? noise_within(*test.figure, *base.front(), *candidate.front())
                                  : VarianceEstimate{});
  test.known = test.found.noise_known || same_run || test.figure->step_quantile == 0;
  if (!test.known) return;
  test.p_worse = test.found.p_above();
  test.p_better = test.found.p_below();
}

// Appends what is to be tested, or a note or to `unknown` why the figure is not compared. A loss
// that only new runs lack says that training diverged.
void gather_figure(const GateFigure& figure, const PairedCells& cells, const GateOptions& options,
                   std::size_t index, PairVerdict& pair, std::vector<FigureTest>& tests,
                   std::map<std::string, std::vector<std::string>>& unknown) {
  const Runs old_runs = which(cells.base.runs, usable);
  const Runs new_runs = which(cells.candidate.runs, usable);
  Side base = side_of(figure, old_runs), candidate = side_of(figure, new_runs);
  if (base.missing > 0) {
    unknown[base.reason].emplace_back(figure.heading);
    return;
  }
  if (figure.is(GateFigure::kOfEqualSteps) && trained_differently(cells)) {
    pair.notes.push_back(
        fmt::format("{} not compared: the runs saw different numbers of samples", figure.heading));
    return;
  }
  FigureTest& test = tests.emplace_back();
  test.figure = &figure;
  test.pair = index;
  test.verdict.name = figure.name;
  test.verdict.minimum_effect = change_of(figure, least_effect(figure, options));
  if (candidate.missing == 0) {
    test.base = std::move(base.values);
    test.candidate = std::move(candidate.values);
    compare_sides(old_runs, new_runs, test);
    return;
  }
  const bool loss = test.verdict.name == "final_train_loss";
  test.verdict.verdict = loss ? GateVerdict::regressed : GateVerdict::inconclusive;
  test.verdict.note =
      fmt::format("missing in {} of {} new repetitions ({}), in none of the baseline",
                  candidate.missing, new_runs.size(), candidate.reason);
}

// The median step's test, if `test` is of the throughput and only restates it.
const FigureTest* original_of(const FigureTest& test, std::span<const FigureTest> tests) {
  if (test.verdict.name != "samples_per_s") return nullptr;
  const auto found = std::ranges::find_if(tests, [&](const FigureTest& other) {
    return other.pair == test.pair && other.verdict.name == "median_step_s" &&
           std::abs(other.found.difference - test.found.difference) < kSame &&
           std::abs(other.found.deviation - test.found.deviation) < kSame;
  });
  return found == tests.end() ? nullptr : &*found;
}

// Corrects the p values for the number of figures that vary, and returns it.
std::size_t adjust_family(std::vector<FigureTest>& tests) {
  std::vector<FigureTest*> family;
  for (FigureTest& test : tests) {
    if (test.found.error == 0) continue;
    test.original = original_of(test, tests);
    if (test.original == nullptr) family.push_back(&test);
  }
  if (family.empty()) return 0;
  const std::size_t counted = std::max(family.size(), kFewestCounted);
  for (double FigureTest::*p : {&FigureTest::p_worse, &FigureTest::p_better}) {
    std::vector<double> values(counted, 1);
    for (std::size_t k = 0; k < family.size(); ++k) values[k] = family[k]->*p;
    const std::vector<double> adjusted = holm_adjusted(values);
    for (std::size_t k = 0; k < family.size(); ++k) family[k]->*p = adjusted[k];
    for (FigureTest& test : tests) {
      if (test.original != nullptr) test.*p = test.original->*p;
    }
  }
  return counted;
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

// Sets how many repetitions would tell a difference of 0 from the one found here, or from twice the
// minimum effect if that is more. It is at least 1.5 times what there is: a verdict that stays open
// was unlucky at best. `alpha`: what the correction leaves for one test.
void advise(const FigureTest& test, double effect, double alpha, FigureVerdict& verdict) {
  if (!test.known) {
    verdict.note =
        "one repetition a side does not tell the noise: measure both several times, in "
        "turn";
    verdict.repetitions_needed = 5;
    return;
  }
  const std::size_t made = std::min(test.base.size(), test.candidate.size());
  const auto needed = repetitions_to_decide(
      test.found.deviation, std::max(effect, test.found.difference / 2), alpha, kMostRepetitions);
  if (needed) {
    verdict.repetitions_needed = std::max(*needed, static_cast<int>(made + (made + 1) / 2));
  } else {
    verdict.note = fmt::format("too noisy: more than {} repetitions", kMostRepetitions);
  }
}

FigureVerdict judge(const FigureTest& test, std::size_t family, const GateOptions& options) {
  FigureVerdict verdict = test.verdict;
  if (test.base.empty()) return verdict;
  const GateFigure& figure = *test.figure;
  const Comparison& found = test.found;
  const double effect = least_effect(figure, options);
  verdict.verdict = decide(test, effect, options.alpha);
  verdict.base = value_of_badness(figure, found.base);
  verdict.candidate = value_of_badness(figure, found.other);
  verdict.base_measured = value_of_badness(figure, mean(test.base));
  verdict.candidate_measured = value_of_badness(figure, mean(test.candidate));
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

void add_figure(PairVerdict& pair, FigureVerdict verdict) {
  if (counts(verdict)) pair.verdict = std::max(pair.verdict, verdict.verdict);
  if (verdict.outliers > 0 && verdict.name != "samples_per_s") {
    pair.notes.push_back(fmt::format("{}: {} limited (without that: {})", figure_heading(verdict),
                                     counted(verdict.outliers, "outlier"), measured_text(verdict)));
  }
  pair.figures.push_back(std::move(verdict));
}

}  // namespace

void judge_pairs(std::span<const PairedCells> all, GateResult& result) {
  std::vector<FigureTest> tests;
  for (const PairedCells& cells : all) {
    if (which(cells.base.runs, usable).empty()) {
      result.uncompared.push_back({false, cells.base.key, cells.base.setting,
                                   cells.base.runs.size(),
                                   fmt::format("no run of the baseline has figures ({})",
                                               unusable_reason(*cells.base.runs.front()))});
      continue;
    }
    const std::size_t index = result.pairs.size();
    PairVerdict& pair = result.pairs.emplace_back(open_pair(cells));
    if (pair.candidate_repetitions == 0) continue;
    std::map<std::string, std::vector<std::string>> unknown;  // in the baseline, by the reason
    for (const GateFigure& figure : gate_figures()) {
      if (figure.is(GateFigure::kOfCollectives) != pair.key.collective) continue;
      gather_figure(figure, cells, result.options, index, pair, tests, unknown);
    }
    for (const auto& [reason, figures] : unknown) {
      pair.notes.push_back(
          fmt::format("{} not compared: in the baseline {}", fmt::join(figures, ", "), reason));
    }
  }
  result.tests = adjust_family(tests);
  for (const FigureTest& test : tests) {
    add_figure(result.pairs[test.pair], judge(test, result.tests, result.options));
  }
  result.verdict = largest(result.pairs, result.verdict, &PairVerdict::verdict);
}

}  // namespace ddpbench::report
