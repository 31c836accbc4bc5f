// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/repetitions.h"

#include <fmt/format.h>

#include <algorithm>
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

CellSummary summary(const Report& report, std::vector<std::size_t> runs,
                    std::optional<double> wanted_width) {
  CellSummary cell;
  std::vector<double> step_s;
  for (const std::size_t index : runs) {
    const Run& run = report.runs[index];
    if (is_complete(run) && run.step.time_s) step_s.push_back(run.step.time_s->median);
  }
  cell.runs = std::move(runs);
  const std::size_t n = step_s.size();
  cell.step_median_s =
      n > 0 ? Figure::of(median(step_s)) : Figure::missing("no repetition was timed");
  if (const MedianSpread spread = median_spread(step_s); spread.is_interval) {
    cell.ci_low_s = spread.low;
    cell.ci_high_s = spread.high;
    cell.ci_width_ratio =
        Figure::of((*spread.high.value - *spread.low.value) / *cell.step_median_s.value);
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

Figure rate_of(const Run& run) { return run.samples_per_s; }

// The median over these; missing where one of them did not reach the accuracy.
Figure joint_time_to_accuracy(const Runs& timed, const Run& middle) {
  std::vector<double> seconds = known_values(timed, time_to_accuracy);
  if (seconds.empty()) return time_to_accuracy(middle);
  if (seconds.size() == timed.size()) return Figure::of(median(std::move(seconds)));
  return Figure::missing(fmt::format("{} of {} repetitions did not reach {}",
                                     timed.size() - seconds.size(), timed.size(),
                                     accuracy_words(*middle.until_accuracy)));
}

// One repetition that disagrees with one device is enough to trust none of them.
Verification joint_verification(const Runs& all, const Run& middle) {
  const auto failed = [](const Run* run) { return run->verification.status == "failed"; };
  const auto first = std::ranges::find_if(all, failed);
  if (first == all.end()) return middle.verification;
  Verification result = (*first)->verification;
  result.reason = fmt::format("in {} of {} repetitions{}{}", std::ranges::count_if(all, failed),
                              all.size(), result.reason.empty() ? "" : ": ", result.reason);
  return result;
}

MedianSpread missing_spread(const std::string& reason) {
  return {Figure::missing(reason), Figure::missing(reason)};
}

// Of `middle`, the median of the values or of their quotients by the divisors, if there are any.
MedianSpread spread_around(double middle, const std::vector<double>& values,
                           const std::vector<double>& divisors) {
  if (values.size() < 2 && divisors.size() < 2)
    return missing_spread("one timed repetition: the noise is unknown");
  if (enough_for_interval(values) && (divisors.empty() || enough_for_interval(divisors))) {
    const RatioInterval interval = compare_ratios(values, divisors);
    // Where the values' logarithms are skewed, the mean's interval may leave out the median.
    return {Figure::of(std::min(middle, *interval.low)),
            Figure::of(std::max(middle, *interval.high)), true};
  }
  const auto [least, most] = std::ranges::minmax(values);
  if (divisors.empty()) return {Figure::of(least), Figure::of(most)};
  const auto [least_divisor, most_divisor] = std::ranges::minmax(divisors);
  return {Figure::of(least / most_divisor), Figure::of(most / least_divisor)};
}

// The spread of the speed-up against the `single` runs of the report.
MedianSpread speedup_spread(const Baselines& baselines, const Run& run, const Runs& timed) {
  if (!run.scaling) return missing_spread(run.scaling_reason);
  if (run.strategy == kBaseline) return missing_spread("it is its own baseline");
  return quotient_spread(known_values(timed, rate_of), known_values(baselines.of(run), rate_of));
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

RepeatedRuns condensed(const Baselines& baselines, Runs runs) {
  RepeatedRuns result;
  std::ranges::copy_if(runs, std::back_inserter(result.timed), [](const Run* run) {
    return run->status == Status::ok && run->step.time_s.has_value();
  });
  const Runs& timed = result.timed;
  result.note = note_on(runs, timed.size());
  Runs sorted = timed.empty() ? Runs{runs.front()} : timed;
  if (!timed.empty()) {
    std::ranges::stable_sort(sorted, {}, [](const Run* run) { return run->step.time_s->median; });
  }
  result.middle = sorted[(sorted.size() - 1) / 2];
  result.verification = joint_verification(runs, *result.middle);
  result.step_s = median_spread(
      known_values(timed, [](const Run& run) { return Figure::of(run.step.time_s->median); }));
  result.speedup = speedup_spread(baselines, *result.middle, timed);
  result.time_to_accuracy = joint_time_to_accuracy(timed, *result.middle);
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
    const std::string& model = rows[i].run->device_model;
    const auto place = std::ranges::find_if(places, [&](std::size_t p) {
      const std::string& other = rows[groups[p].front()].run->device_model;
      return model.empty() || other.empty() || model == other;
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

void fill_cells(Report& report, std::optional<double> wanted_width) {
  report.cells.clear();
  std::vector<std::vector<std::size_t>> groups = repetition_groups(all_runs(report));
  if (groups.size() == report.runs.size() && !wanted_width) return;
  for (auto& runs : groups) {
    report.cells.push_back(summary(report, std::move(runs), wanted_width));
  }
}

MedianSpread median_spread(const std::vector<double>& values) {
  if (values.empty()) return missing_spread("no repetition was timed");
  return spread_around(median(values), values, {});
}

MedianSpread quotient_spread(const std::vector<double>& rates,
                             const std::vector<double>& divisors) {
  if (rates.empty() || divisors.empty()) return missing_spread("no repetition was timed");
  return spread_around(median_rate(rates) / median_rate(divisors), rates, divisors);
}

CondensedRows::CondensedRows(std::span<const RunRow> rows) {
  std::map<const Report*, Baselines> baselines;
  for (const std::vector<std::size_t>& group : repetition_groups(rows)) {
    const RunRow& first = rows[group.front()];
    if (group.size() == 1) {
      rows_.push_back(first);
      continue;
    }
    Runs runs = mapped(group, [&](std::size_t index) { return rows[index].run; });
    const Baselines& singles = baselines.try_emplace(first.report, *first.report).first->second;
    const RepeatedRuns& repeated = repeated_.emplace_back(condensed(singles, std::move(runs)));
    rows_.push_back({first.report, repeated.middle, first.file, &repeated});
  }
}

std::vector<const Run*> runs_of_row(const RunRow& row) {
  return row.repeated != nullptr ? row.repeated->runs : std::vector<const Run*>{row.run};
}

const Verification& verification_of(const RunRow& row) {
  return row.repeated == nullptr ? row.run->verification : row.repeated->verification;
}

}  // namespace ddpbench::report
