// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/repetitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "reports/data/settings.h"
#include "reports/metrics/comparison.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"

namespace ddpbench::report {
namespace {

bool enough_for_interval(const std::vector<double>& values) {
  return values.size() >= kFewestForInterval &&
         std::ranges::all_of(values, [](double value) { return value > 0; });
}

// Of values whose logarithms are skewed, the mean's interval may leave out the median.
MedianInterval around(double middle, const RatioInterval& interval) {
  return {middle, std::min(middle, *interval.low), std::max(middle, *interval.high)};
}

// The number of failed repetitions, and the step times of the others.
struct Outcome {
  std::vector<double> step_s;
  std::size_t failed = 0;
};

Outcome outcome(const Report& report, const std::vector<std::size_t>& runs) {
  Outcome result;
  for (const std::size_t index : runs) {
    const Run& run = report.runs[index];
    if (is_complete(run) && run.step.time_s) {
      result.step_s.push_back(run.step.time_s->median);
    } else {
      ++result.failed;
    }
  }
  return result;
}

CellSummary summary(const Report& report, std::vector<std::size_t> runs,
                    std::optional<double> wanted_width) {
  CellSummary cell;
  const Outcome found = outcome(report, runs);
  cell.runs = std::move(runs);
  const std::size_t n = found.step_s.size();
  cell.step_median_s =
      n > 0 ? Figure::of(median(found.step_s)) : Figure::missing("no repetition was timed");
  if (const auto interval = median_interval(found.step_s)) {
    cell.ci_low_s = Figure::of(interval->low);
    cell.ci_high_s = Figure::of(interval->high);
    cell.ci_width_ratio = Figure::of(interval->relative_width());
  } else {
    cell.ci_low_s = cell.ci_high_s = cell.ci_width_ratio = Figure::missing(
        fmt::format("a 95 % interval of the median needs {} timed repetitions, there {} {}",
                    kFewestForInterval, n == 1 ? "is" : "are", n));
  }
  if (!wanted_width) return cell;
  cell.wanted_width_ratio = *wanted_width;
  const auto& width = cell.ci_width_ratio.value;
  cell.noisy = !width || *width > *wanted_width;
  return cell;
}

bool same_device_model(const Run& a, const Run& b) {
  return a.device_model.empty() || b.device_model.empty() || a.device_model == b.device_model;
}

using Runs = std::vector<const Run*>;

// What `get` returns for the runs that have it.
template <typename Get>
std::vector<double> known_values(const Runs& runs, Get get) {
  std::vector<double> values;
  for (const Run* run : runs) {
    const Figure figure = get(*run);
    if (figure.value) values.push_back(*figure.value);
  }
  return values;
}

// The median of what `get` returns for the runs; `own` where no run has it.
template <typename Get>
Figure median_figure(const Figure& own, const Runs& runs, Get get) {
  std::vector<double> values = known_values(runs, get);
  return values.empty() ? own : Figure::of(median(std::move(values)));
}

// The same of a rate, so that it fits the median step time that stands beside it.
template <typename Get>
Figure median_rate_figure(const Figure& own, const Runs& runs, Get get) {
  std::vector<double> values = known_values(runs, get);
  return values.empty() ? own : Figure::of(median_rate(std::move(values)));
}

// NaN where one of the numbers is infinite or NaN: then their median means nothing.
double median_number(std::vector<double> values) {
  const bool finite = std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
  return finite ? median(std::move(values)) : std::numeric_limits<double>::quiet_NaN();
}

void condense_steps(const Runs& runs, StepStatistics& time) {
  for (double StepStatistics::*member :
       {&StepStatistics::median, &StepStatistics::p5, &StepStatistics::p95, &StepStatistics::p99}) {
    time.*member = *median_figure({}, runs, [member](const Run& run) {
                      return Figure::of((*run.step.time_s).*member);
                    }).value;
  }
  time.iqr = median_figure(time.iqr, runs, [](const Run& run) { return run.step.time_s->iqr; });
  for (const Run* run : runs) {
    time.min = std::min(time.min, run->step.time_s->min);
    time.max = std::max(time.max, run->step.time_s->max);
  }
}

void condense_epochs(const Runs& runs, std::vector<EpochRow>& epochs) {
  for (std::size_t e = 0; e < epochs.size(); ++e) {
    const auto middle = [&](double EpochRow::*member) {
      std::vector<double> values;
      for (const Run* run : runs) {
        if (e < run->epochs.size()) values.push_back(run->epochs[e].*member);
      }
      return median_number(std::move(values));
    };
    for (double EpochRow::*member : {&EpochRow::time_s, &EpochRow::samples_per_s,
                                     &EpochRow::train_loss, &EpochRow::train_accuracy}) {
      epochs[e].*member = middle(member);
    }
    epochs[e].test_accuracy = median_figure(epochs[e].test_accuracy, runs, [e](const Run& run) {
      return e < run.epochs.size() ? run.epochs[e].test_accuracy : Figure{};
    });
  }
}

void condense_devices(const Runs& runs, std::vector<DeviceRow>& devices) {
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (const Run* run : runs) {
      if (d >= run->devices.size() || !run->devices[d].peak_reason.empty()) continue;
      devices[d].peak_bytes = std::max(devices[d].peak_bytes, run->devices[d].peak_bytes);
    }
  }
}

void condense_times(const Runs& runs, Times& time) {
  for (Figure Times::*member : {&Times::startup_s, &Times::verify_s, &Times::warmup_s,
                                &Times::train_s, &Times::evaluate_s, &Times::total_s}) {
    time.*member =
        median_figure(time.*member, runs, [member](const Run& run) { return run.time.*member; });
  }
}

template <double Scaling::*member>
Figure scaling_of(const Run& run) {
  return run.scaling ? Figure::of((*run.scaling).*member) : Figure{};
}

void condense_scaling(const Runs& runs, Run& result) {
  const auto with =
      std::ranges::find_if(runs, [](const Run* run) { return run->scaling.has_value(); });
  if (with == runs.end()) return;
  result.scaling = (*with)->scaling;
  result.scaling->speedup = *median_rate_figure({}, runs, scaling_of<&Scaling::speedup>).value;
  result.scaling->efficiency =
      *median_rate_figure({}, runs, scaling_of<&Scaling::efficiency>).value;
}

// How many of `runs` did not reach the accuracy that they had to.
std::size_t missed_accuracy(const Runs& runs) {
  return runs.size() - known_values(runs, time_to_accuracy).size();
}

std::string missed_words(const Runs& runs) {
  return fmt::format("{} of {} repetitions did not reach {}", missed_accuracy(runs), runs.size(),
                     accuracy_words(runs.front()->until_accuracy->target));
}

// The median where a repetition that did not reach the accuracy took longer than any that did.
Figure median_time_to_accuracy(const Figure& own, const Runs& runs) {
  std::vector<double> seconds = known_values(runs, time_to_accuracy);
  const std::size_t missed = missed_accuracy(runs);
  if (seconds.empty()) return own;
  if (2 * missed >= runs.size()) return Figure::missing(missed_words(runs));
  // Any value above the others stands for them: the median is below.
  seconds.insert(seconds.end(), missed, std::ranges::max(seconds));
  return Figure::of(median(std::move(seconds)));
}

// One repetition that disagrees with one device is enough to trust none of them.
void condense_verification(const Runs& all, Verification& result) {
  const auto failed = [](const Run* run) { return run->verification.status == "failed"; };
  const auto first = std::ranges::find_if(all, failed);
  if (first == all.end()) return;
  result = (*first)->verification;
  result.reason = fmt::format("in {} of {} repetitions{}{}", std::ranges::count_if(all, failed),
                              all.size(), result.reason.empty() ? "" : ": ", result.reason);
}

Run median_run(const Runs& all, Runs timed) {
  if (timed.empty()) return *all.front();
  std::ranges::stable_sort(timed, {}, [](const Run* run) { return run->step.time_s->median; });
  const Run& middle = *timed[(timed.size() - 1) / 2];
  Run result = middle;
  result.repetition = 0;
  result.step.samples_s.clear();
  condense_steps(timed, *result.step.time_s);
  condense_epochs(timed, result.epochs);
  condense_devices(timed, result.devices);
  condense_times(timed, result.time);
  if (result.until_accuracy) {
    result.until_accuracy->train_s = median_time_to_accuracy(result.until_accuracy->train_s, timed);
  }
  for (auto& [name, figure] : result.phases) {
    figure = median_figure(figure, timed, [&name](const Run& run) {
      const auto found = run.phases.find(name);
      return found == run.phases.end() ? Figure{} : found->second;
    });
  }
  result.samples_per_s = median_rate_figure(result.samples_per_s, timed,
                                            [](const Run& run) { return run.samples_per_s; });
  result.samples_per_s_per_device =
      median_rate_figure(result.samples_per_s_per_device, timed,
                         [](const Run& run) { return run.samples_per_s_per_device; });
  condense_scaling(timed, result);
  condense_verification(all, result.verification);
  return result;
}

MedianSpread missing_spread(const std::string& reason) {
  return {Figure::missing(reason), Figure::missing(reason), SpreadKind::none};
}

MedianSpread known_spread(double low, double high, SpreadKind kind) {
  return {Figure::of(low), Figure::of(high), kind};
}

// The spread of the speed-up against the `single` runs of the same report.
MedianSpread speedup_spread(const Report& report, const Run& run, const Runs& timed) {
  if (!run.scaling) return missing_spread(run.scaling_reason);
  if (run.scaling->baseline != kBaseline) {
    return missing_spread("measured against another report");
  }
  if (run.strategy == kBaseline) return missing_spread("it is its own baseline");
  const auto rate = [](const Run& one) { return one.samples_per_s; };
  return quotient_spread(known_values(timed, rate), known_values(baseline_runs(report, run), rate));
}

MedianSpread divided(MedianSpread spread, int divisor) {
  for (Figure* end : {&spread.low, &spread.high}) {
    if (end->value) *end->value /= divisor;
  }
  return spread;
}

void condense_accuracy_spread(const Runs& timed, RepeatedRuns& result) {
  if (timed.empty() || !result.median.until_accuracy) return;
  if (missed_accuracy(timed) == 0) {
    result.to_accuracy_s = median_spread(known_values(timed, time_to_accuracy));
    return;
  }
  result.to_accuracy_s = missing_spread(missed_words(timed));
  if (result.median.until_accuracy->train_s.value) {
    result.accuracy_note = missed_words(timed) + ", which counts as slower than all others";
  }
}

// "2 of 5 repetitions did not end well, first: failed: ..."; empty where all did.
std::string note_on(const Runs& all, std::size_t timed) {
  if (timed == all.size() || timed == 0) return {};
  const auto bad = std::ranges::find_if(
      all, [](const Run* run) { return run->status != Status::ok || !run->step.time_s; });
  const Run& first = **bad;
  const std::string why = first.error ? first.error->message : first.reason;
  return fmt::format("{} of {} repetitions have no figures; the first: {}{}{}", all.size() - timed,
                     all.size(), to_string(first.status), why.empty() ? "" : ": ", why);
}

// The speed-up of the rates that stand in the table. Those that a report holds may be of rates that
// were condensed in another way.
void fit_scaling(const Report& report, Run& run) {
  if (!run.scaling || run.scaling->baseline != kBaseline || !run.samples_per_s.value) return;
  const auto rates =
      known_values(baseline_runs(report, run), [](const Run& one) { return one.samples_per_s; });
  if (rates.empty()) return;
  run.scaling->speedup = *run.samples_per_s.value / median_rate(rates);
  run.scaling->efficiency = run.scaling->speedup / run.world_size;
}

RepeatedRuns condensed(const Report& report, Runs runs) {
  Runs timed;
  std::ranges::copy_if(runs, std::back_inserter(timed), [](const Run* run) {
    return run->status == Status::ok && run->step.time_s.has_value();
  });
  RepeatedRuns result;
  result.timed = timed.size();
  result.note = note_on(runs, timed.size());
  result.median = median_run(runs, timed);
  if (timed.size() > 1) fit_scaling(report, result.median);
  result.step_s = median_spread(
      known_values(timed, [](const Run& run) { return Figure::of(run.step.time_s->median); }));
  result.speedup = speedup_spread(report, result.median, timed);
  result.efficiency = divided(result.speedup, result.median.world_size);
  result.to_accuracy_s = missing_spread("no --until-accuracy");
  condense_accuracy_spread(timed, result);
  result.runs = std::move(runs);
  return result;
}

}  // namespace

// Cells with the same key differ in the device model.
std::vector<std::vector<std::size_t>> repetition_groups(std::span<const RunRow> rows) {
  std::vector<std::vector<std::size_t>> groups;
  using Key = std::pair<const Report*, Settings>;
  std::map<Key, std::vector<std::size_t>> by_key;  // indices into `groups`
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::size_t>& places = by_key[{rows[i].report, cell_key(*rows[i].run)}];
    const auto place = std::ranges::find_if(places, [&](std::size_t p) {
      return same_device_model(*rows[groups[p].front()].run, *rows[i].run);
    });
    if (place != places.end()) {
      groups[*place].push_back(i);
    } else {
      places.push_back(groups.size());
      groups.push_back({i});
    }
  }
  return groups;
}

std::optional<MedianInterval> median_interval(std::vector<double> values) {
  if (!enough_for_interval(values)) return std::nullopt;
  const double middle = median(values);
  return around(middle, compare_ratios(std::move(values)));
}

void fill_cells(Report& report, std::optional<double> wanted_width) {
  report.cells.clear();
  std::vector<std::vector<std::size_t>> groups = repetition_groups(all_runs(report));
  if (groups.size() == report.runs.size() && !wanted_width) return;
  for (auto& runs : groups) {
    report.cells.push_back(summary(report, std::move(runs), wanted_width));
  }
}

std::string_view to_string(SpreadKind kind) {
  switch (kind) {
    case SpreadKind::none:
      return "";
    case SpreadKind::least_and_most:
      return "least and most";
    case SpreadKind::confidence:
      return "95 % confidence";
  }
  throw InternalError("unknown kind of a spread");
}

MedianSpread median_spread(const std::vector<double>& values) {
  if (values.empty()) return missing_spread("no repetition was timed");
  if (values.size() == 1) return missing_spread("one timed repetition: the noise is unknown");
  if (const auto interval = median_interval(values)) {
    return known_spread(interval->low, interval->high, SpreadKind::confidence);
  }
  const auto [least, most] = std::ranges::minmax(values);
  return known_spread(least, most, SpreadKind::least_and_most);
}

MedianSpread quotient_spread(const std::vector<double>& values,
                             const std::vector<double>& divisors) {
  if (values.empty() || divisors.empty()) return missing_spread("no repetition was timed");
  if (values.size() == 1 && divisors.size() == 1) {
    return missing_spread("one timed repetition: the noise is unknown");
  }
  if (enough_for_interval(values) && enough_for_interval(divisors)) {
    const double middle = median_rate(values) / median_rate(divisors);
    const MedianInterval interval = around(middle, compare_ratios(values, divisors));
    return known_spread(interval.low, interval.high, SpreadKind::confidence);
  }
  const auto [least, most] = std::ranges::minmax(values);
  const auto [least_divisor, most_divisor] = std::ranges::minmax(divisors);
  return known_spread(least / most_divisor, most / least_divisor, SpreadKind::least_and_most);
}

CondensedRows::CondensedRows(std::span<const RunRow> rows) {
  for (const std::vector<std::size_t>& group : repetition_groups(rows)) {
    const RunRow& first = rows[group.front()];
    if (group.size() == 1) {
      rows_.push_back(first);
      continue;
    }
    Runs runs;
    for (const std::size_t index : group) runs.push_back(rows[index].run);
    const RepeatedRuns& repeated =
        repeated_.emplace_back(condensed(*first.report, std::move(runs)));
    rows_.push_back({first.report, &repeated.median, first.index, first.file, &repeated});
  }
}

std::vector<const Run*> runs_of_row(const RunRow& row) {
  return row.repeated != nullptr ? row.repeated->runs : std::vector<const Run*>{row.run};
}

}  // namespace ddpbench::report
