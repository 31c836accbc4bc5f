// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "reports/gate/gate_figures.h"
#include "reports/gate/gate_statistics.h"
#include "reports/gate/gate_text.h"

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

struct Gathered {
  std::vector<FigureSamples> samples;
  std::vector<std::vector<FigureVerdict>> lost;  // of each pair
  std::vector<std::vector<std::string>> notes;   // of each pair
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

void gather_figure(const GateFigure& figure, std::size_t pair, const ComparablePair& work,
                   const GateOptions& options, Gathered& all) {
  const Side base = side_of(figure, work.base);
  const Side candidate = side_of(figure, work.candidate);
  const auto note = [&](const std::string& text) {
    all.notes[pair].push_back(fmt::format("{} not compared: {}", figure.heading, text));
  };
  if (base.missing > 0) {
    note("in the baseline " + base.reason);
  } else if (figure.needs_equal_steps && trained_differently(*work.cells)) {
    note("the runs saw different numbers of samples");
  } else if (candidate.missing > 0) {
    all.lost[pair].push_back(lost_figure(figure, candidate, work.candidate.size(), options));
  } else {
    all.samples.push_back(
        {&figure, pair, base.values, candidate.values, noise_within(figure, work)});
  }
}

Gathered gather(std::span<const ComparablePair> works, const GateOptions& options) {
  Gathered all;
  all.lost.resize(works.size());
  all.notes.resize(works.size());
  for (std::size_t pair = 0; pair < works.size(); ++pair) {
    if (works[pair].candidate.empty()) continue;
    for (const GateFigure& figure : gate_figures()) {
      if (figure.of_collectives != works[pair].cells->candidate.key.collective) continue;
      gather_figure(figure, pair, works[pair], options, all);
    }
  }
  return all;
}

double mean_value(const GateFigure& figure, const std::vector<double>& badnesses) {
  double sum = 0;
  for (const double value : badnesses) sum += value;
  return value_of_badness(figure, sum / static_cast<double>(badnesses.size()));
}

// Sets how many repetitions would tell a difference of 0 from the one found here, or from twice the
// minimum effect if that is more. It is at least 1.5 times what there is: a verdict that stays open
// was unlucky at best. `alpha`: what the correction leaves for one test.
void advise(const FigureSamples& samples, const FigureTest& test, double effect, double alpha,
            FigureVerdict& verdict) {
  if (!test.known) {
    verdict.note = samples.figure->of_collectives
                       ? "one report a side does not tell the noise: measure both sides several "
                         "times, in turn"
                       : "one repetition a side and too few steps to know the noise: repeat the "
                         "runs";
    verdict.repetitions_needed = 5;
    return;
  }
  const std::size_t made = std::min(samples.base.size(), samples.candidate.size());
  const auto least = static_cast<int>(made + (made + 1) / 2);
  const auto needed = repetitions_to_decide(test.deviation, std::max(effect, test.difference / 2),
                                            alpha, kMostRepetitions);
  if (needed) {
    verdict.repetitions_needed = std::max(*needed, least);
  } else {
    verdict.note = fmt::format("too noisy: more than {} repetitions", kMostRepetitions);
  }
}

FigureVerdict judge(const FigureSamples& samples, const FigureTest& test, std::size_t family,
                    const GateOptions& options) {
  const GateFigure& figure = *samples.figure;
  FigureVerdict verdict;
  verdict.name = figure.name;
  const double effect = least_effect(figure, options);
  verdict.minimum_effect = change_of(figure, effect);
  verdict.verdict = decide(test, effect, options.alpha);
  verdict.base = value_of_badness(figure, test.base);
  verdict.candidate = value_of_badness(figure, test.candidate);
  verdict.base_measured = mean_value(figure, samples.base);
  verdict.candidate_measured = mean_value(figure, samples.candidate);
  verdict.change = change_of(figure, test.difference);
  verdict.outliers = test.outliers;
  if (test.known) {
    const double margin =
        test.dof > 0 ? student_t_quantile(1 - options.alpha, test.dof) * test.error : 0;
    verdict.change_low = change_of(figure, test.difference - margin);
    verdict.change_high = change_of(figure, test.difference + margin);
    verdict.noise = change_of(figure, test.deviation);
    verdict.p_worse = test.p_worse;
    verdict.p_better = test.p_better;
  }
  if (verdict.verdict == GateVerdict::inconclusive) {
    advise(samples, test, effect,
           options.alpha / static_cast<double>(std::max<std::size_t>(family, 1)), verdict);
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
  const Gathered all = gather(works, options);
  const FigureTests tests = test_figures(all.samples);
  family = tests.family;
  std::vector<PairVerdict> pairs;
  for (const ComparablePair& work : works) pairs.push_back(open_pair(work));
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    add_figure(pairs[all.samples[i].pair],
               judge(all.samples[i], tests.results[i], family, options));
  }
  for (std::size_t pair = 0; pair < works.size(); ++pair) {
    for (const FigureVerdict& lost : all.lost[pair]) add_figure(pairs[pair], lost);
    pairs[pair].notes.insert(pairs[pair].notes.end(), all.notes[pair].begin(),
                             all.notes[pair].end());
  }
  return pairs;
}

}  // namespace ddpbench::report
