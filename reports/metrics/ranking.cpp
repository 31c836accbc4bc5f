// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "reports/metrics/comparison.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

bool competes(const RunRow& row) {
  const Run& run = *row.run;
  return run.status == Status::ok && run.verification.status != "failed" && run.injected.empty() &&
         !run.predicted && run.samples_per_s.value.value_or(0) > 0;
}

// The settings of a contest, each with its repetitions, in the order of their first runs.
std::vector<Standing> standings_of(std::vector<RunRow> rows) {
  const bool all = std::ranges::all_of(rows, [](const RunRow& r) { return r.run->oversubscribed; });
  if (!all) std::erase_if(rows, [](const RunRow& row) { return row.run->oversubscribed; });
  const RunNames names(rows);
  std::vector<Standing> standings;
  for (auto& [key, repetitions] :
       grouped(rows, [](const RunRow& row) { return cell_key(*row.run); })) {
    const std::string& name = names.setting(*repetitions.front().run);
    standings.push_back({std::move(repetitions), name, 0});
  }
  return standings;
}

Contest contest_of(const Settings& work, std::vector<RunRow> rows) {
  Contest contest;
  contest.work = work;
  std::vector<Standing> all = standings_of(std::move(rows));
  for (Standing& standing : all) standing.samples_per_s = median_rate(rates_of(standing));
  std::ranges::stable_sort(all, std::greater(), &Standing::samples_per_s);
  for (Standing& standing : all) {
    const bool exact = !standing.runs[0].run->verification.is_approximate();
    (exact ? contest.standings : contest.approximate).push_back(std::move(standing));
  }
  return contest;
}

// The sum of the training loss over the samples until then, by their number.
std::map<std::int64_t, double> summed_losses(const Run& run) {
  std::map<std::int64_t, double> sums = {{0, 0}};
  for (const ProgressPoint& point : run.progress) {
    const auto [samples, sum] = *sums.rbegin();
    sums[point.samples] = sum + point.train_loss * static_cast<double>(point.samples - samples);
  }
  return sums;
}

// Both are means over the last quarter of the samples after which both runs tell their loss.
std::string loss_words(const Run& run, const Run& exact) {
  if (!has_same_optimizer(run, exact)) return {};
  const std::map<std::int64_t, double> own = summed_losses(run);
  std::map<std::int64_t, double> other = summed_losses(exact);
  std::erase_if(other, [&](const auto& sum) { return !own.contains(sum.first); });
  const std::int64_t end = other.rbegin()->first;
  if (end == 0) return {};
  const std::int64_t begin = std::prev(other.upper_bound(end - end / 4))->first;
  const auto mean = [begin, end](const std::map<std::int64_t, double>& sums) {
    return (sums.at(end) - sums.at(begin)) / static_cast<double>(end - begin);
  };
  return fmt::format("loss {:.3g} after the same samples (exact {:.3g})", mean(own), mean(other));
}

}  // namespace

std::vector<double> rates_of(const Standing& standing) {
  return mapped(standing.runs, [](const RunRow& row) { return *row.run->samples_per_s.value; });
}

bool has_same_optimizer(const Run& a, const Run& b) {
  return a.optimizer_name == b.optimizer_name && a.optimizer == b.optimizer &&
         a.optimizer_choices == b.optimizer_choices;
}

std::vector<Contest> contests(std::span<const RunRow> rows) {
  std::vector<Contest> found;
  for (auto& [work, group] : grouped(rows | std::views::filter(competes), [](const RunRow& row) {
         return settings_of(*row.run, kRankUse);
       })) {
    found.push_back(contest_of(work, std::move(group)));
  }
  return found;
}

std::string approximate_words(const Contest& contest, const Standing& standing,
                              std::string_view sure) {
  std::vector<std::string> parts;
  const Run& run = *standing.runs[0].run;
  if (!contest.standings.empty()) {
    const Standing& exact = contest.standings[0];
    const double ratio = standing.samples_per_s / exact.samples_per_s;
    parts.push_back(fmt::format("{} % {} than the fastest exact run{}",
                                lead_percent(std::abs(ratio - 1)), ratio < 1 ? "slower" : "faster",
                                sure));
    parts.push_back(loss_words(run, *exact.runs[0].run));
  }
  if (const std::optional<double>& apart = run.verification.divergence)
    parts.push_back(lead_percent(*apart) + " % from the reference");
  std::erase(parts, "");
  return joined(parts, ", ");
}

std::string lead_percent(double ratio) {
  const double value = 100 * ratio;
  return fmt::format("{:.{}f}", value, std::abs(value) < 9.95 ? 1 : 0);
}

void judge_gain(Tune& tune, const std::vector<double>& ratios) {
  tune.confirmation_pairs = static_cast<int>(ratios.size());
  tune.recommended = false;
  if (ratios.size() < kFewestForInterval) {
    tune.gain_ratio = tune.gain_low_ratio = tune.gain_high_ratio =
        Figure::missing(fmt::format("{} pairs of fresh runs succeeded, an interval needs {}",
                                    ratios.size(), kFewestForInterval));
    return;
  }
  const RatioInterval step = compare_ratios(ratios);
  tune.gain_ratio = Figure::of(1 - step.ratio);
  tune.gain_low_ratio = Figure::of(1 - *step.high);
  tune.gain_high_ratio = Figure::of(1 - *step.low);
  tune.recommended =
      *tune.gain_low_ratio.value > 0 && *tune.gain_ratio.value >= tune.least_gain_ratio;
}

std::string describe(const TuneSetting& setting) {
  return fmt::format("first bucket {} MiB, bucket cap {} MiB, overlap {}", setting.first_bucket_mb,
                     setting.bucket_cap_mb, setting.overlap ? "on" : "off");
}

std::string conclude(const Tune& tune) {
  if (!tune.candidate) {
    return fmt::format(
        "Bucket sizes make no difference here: none of {} settings was faster than "
        "the default in {} rounds.",
        tune.settings.size(), tune.screening_rounds);
  }
  const TuneSetting& best = tune.settings.at(*tune.candidate);
  if (!tune.gain_ratio.value) {
    return fmt::format("Nothing can be said: {} looked best, but {}.", describe(best),
                       tune.gain_ratio.reason);
  }
  const std::string gain = fmt::format("{:.1f} %", 100 * *tune.gain_ratio.value);
  const std::string interval = fmt::format(
      "95 % interval {:.1f} % to {:.1f} %, {} pairs of fresh runs",
      100 * *tune.gain_low_ratio.value, 100 * *tune.gain_high_ratio.value, tune.confirmation_pairs);
  if (tune.recommended) {
    return fmt::format(
        "Use --first-bucket-mb={} --bucket-cap-mb={} --overlap={}: steps are {} shorter than with "
        "the default ({}).",
        best.first_bucket_mb, best.bucket_cap_mb, best.overlap ? "on" : "off", gain, interval);
  }
  return fmt::format(
      "Keep the default: the best of {} settings ({}) gained {} when measured again ({}).",
      tune.settings.size(), describe(best), gain, interval);
}

}  // namespace ddpbench::report
