// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The charts of lines: throughput and efficiency over the number of devices, and accuracy over
// training.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/charts/chart_runs.h"
#include "reports/data/settings.h"
#include "reports/metrics/noise.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

std::string unfit_scaling(const Run& run) {
  if (!run.samples_per_s.value) {
    return run.samples_per_s.reason.empty() ? "no throughput was measured"
                                            : run.samples_per_s.reason;
  }
  return plausible(*run.samples_per_s.value) ? "" : "its throughput is not plausible";
}

using Doubts = std::map<const Run*, std::string>;  // RunRow::doubt of the setting

ScalingPoint point_of(const RunGroup& group, const std::string& doubt) {
  std::vector<double> rates, efficiencies;
  ScalingPoint point{group};
  for (const Run* run : group.runs) {
    rates.push_back(*run->samples_per_s.value);
    if (run->scaling && plausible(run->scaling->efficiency)) {
      efficiencies.push_back(run->scaling->efficiency);
    } else if (point.efficiency_reason.empty()) {
      point.efficiency_reason = run->scaling_reason;
    }
  }
  point.samples_per_s = spread(rates);
  point.samples_per_s.median = median_rate(rates);
  if (!doubt.empty()) {
    point.efficiency_reason = doubt;
  } else if (!efficiencies.empty() && !group.oversubscribed) {
    point.efficiency = spread(efficiencies);
    point.efficiency->median = median_rate(efficiencies);
    point.efficiency_reason.clear();
  } else if (point.efficiency_reason.empty()) {
    point.efficiency_reason = "no efficiency was recorded";
  }
  return point;
}

void add_ideals(const ChartRuns& runs, const Doubts& doubts, ScalingChart& chart) {
  for (const ScalingPoint& point : chart.points) {
    const RunGroup& group = runs.groups[static_cast<std::size_t>(&point - chart.points.data())];
    const bool usable = group.runs.front()->strategy == kBaseline && point.devices == 1 &&
                        !point.oversubscribed && doubts.at(group.runs[0]).empty() &&
                        group.runs.front()->injected.empty();
    if (usable)
      chart.ideals.push_back(
          {"ideal: " + runs.series[point.series].name, point.samples_per_s.median});
  }
  if (chart.ideals.size() == 1) chart.ideals.front().name = "ideal";
}

// Notes why points have no efficiency, each reason once. Oversubscribed points have a mark for it.
void note_missing_efficiency(ScalingChart& chart) {
  std::vector<std::string> reasons;  // two at most
  for (const ScalingPoint& point : chart.points) {
    if (point.efficiency || point.oversubscribed || reasons.size() == 2) continue;
    if (std::ranges::count(reasons, point.efficiency_reason) == 0) {
      reasons.push_back(point.efficiency_reason);
    }
  }
  if (!reasons.empty()) {
    chart.caption.notes.push_back(
        fmt::format("without efficiency where: {}", fmt::join(reasons, "; ")));
  }
}

std::string unfit_accuracy(const Run& run) {
  if (run.status == Status::diverged) return "training diverged";
  if (run.epochs.empty()) return "no epoch ended";
  for (const EpochRow& epoch : run.epochs) {
    if (!epoch.test_accuracy.value) return missing_reason(epoch.test_accuracy, run);
    if (!plausible(epoch.time_s) || *epoch.test_accuracy.value > 1) {
      return "its epochs are not plausible";
    }
  }
  return "";
}

bool tells_miou(const RunGroup& group) {
  return std::ranges::all_of(group.runs, [](const Run* run) {
    return std::ranges::all_of(run->epochs, [](const EpochRow& epoch) {
      return epoch.test_miou.has_value() && *epoch.test_miou <= 1;
    });
  });
}

// How far a run's file of --resume-training had come.
ResumedFrom resumed_from(const Run& run) { return run.resumed.value_or(ResumedFrom{}); }

// How far a run is after so many steps, by an axis other than time.
double course_of(const Run& run, CourseAxis axis, double steps) {
  return axis == CourseAxis::samples ? steps * static_cast<double>(run.global_batch_size) : steps;
}

// What the repetitions of a group have after one epoch.
struct EpochValues {
  std::vector<double> trained, test_accuracy, train_loss;
};

std::vector<EpochValues> epochs_of(const RunGroup& group, CourseAxis axis, bool of_miou) {
  std::vector<EpochValues> epochs;
  for (const Run* run : group.runs) {
    // How long the steps before took is not recorded.
    const bool by_time = axis == CourseAxis::seconds;
    const auto resumed = static_cast<double>(resumed_from(*run).step);
    double trained = by_time ? 0 : course_of(*run, axis, resumed);
    if (run->epochs.size() > epochs.size()) epochs.resize(run->epochs.size());
    for (std::size_t e = 0; e < run->epochs.size(); ++e) {
      const EpochRow& epoch = run->epochs[e];
      if (by_time) {
        trained += epoch.time_s;
      } else if (run->global_batch_size > 0) {  // all steps process it
        trained += course_of(*run, axis,
                             std::round(static_cast<double>(epoch.samples) /
                                        static_cast<double>(run->global_batch_size)));
      }
      epochs[e].trained.push_back(trained);
      epochs[e].test_accuracy.push_back(of_miou ? *epoch.test_miou : *epoch.test_accuracy.value);
      if (plausible(epoch.train_loss)) epochs[e].train_loss.push_back(epoch.train_loss);
    }
  }
  return epochs;
}

// Repetitions tell the loss after the same steps, but for those that measured other intervals.
void add_losses(const RunGroup& group, std::size_t series, AccuracyChart& chart) {
  struct Values {
    std::vector<double> trained, train_loss;
  };
  std::map<std::int64_t, Values> steps;
  for (const Run* run : group.runs) {
    for (const ProgressPoint& point : run->progress) {
      if (!plausible(point.train_loss) || !plausible(point.train_s)) continue;
      const std::int64_t step = resumed_from(*run).step + point.step;
      Values& values = steps[step];
      values.trained.push_back(chart.axis == CourseAxis::seconds
                                   ? point.train_s
                                   : course_of(*run, chart.axis, static_cast<double>(step)));
      values.train_loss.push_back(point.train_loss);
    }
  }
  for (const auto& [step, values] : steps) {
    chart.losses.push_back({series, step, median(values.trained), median(values.train_loss)});
  }
}

// Lines are told apart by their devices, too.
void add_line(const RunGroup& group, const ChartSeries& of_setting, AccuracyChart& chart) {
  const std::size_t series = chart.series.size();
  const auto variant = std::ranges::count(chart.series, of_setting.style, &ChartSeries::style);
  chart.series.push_back({group.name, of_setting.style, static_cast<std::size_t>(variant)});
  int epochs = resumed_from(*group.runs.front()).epoch;
  for (const EpochValues& epoch : epochs_of(group, chart.axis, chart.of_miou)) {
    AccuracyPoint point{series, ++epochs, spread(epoch.trained), spread(epoch.test_accuracy)};
    if (!epoch.train_loss.empty()) point.train_loss = spread(epoch.train_loss);
    point.oversubscribed = group.oversubscribed;
    chart.points.push_back(point);
  }
  add_losses(group, series, chart);
}

void add_targets(const ChartRuns& runs, AccuracyChart& chart) {
  std::vector<double>& targets = chart.targets;
  for (const Run* run : runs.groups | std::views::transform(&RunGroup::runs) | std::views::join) {
    if (run->until_accuracy && run->until_accuracy->is_of_miou() == chart.of_miou)
      targets.push_back(std::min(run->until_accuracy->target, 1.0));
  }
  std::ranges::sort(targets);
  targets.erase(std::ranges::unique(targets).begin(), targets.end());
}

// From 0, but the last few per cent of good networks are to be told apart.
double beginning_of(const AccuracyChart& chart) {
  constexpr double kBeginnings[] = {0.99, 0.98, 0.95, 0.9, 0.8, 0.5};
  double least = chart.targets.empty() ? 1 : chart.targets.front();
  for (const AccuracyPoint& point : chart.points) {
    least = std::min(least, point.test_accuracy.min);
  }
  const auto* const found =
      std::ranges::find_if(kBeginnings, [least](double begin) { return begin <= least; });
  return found == std::end(kBeginnings) ? 0 : *found;
}

void note_points(AccuracyChart& chart) {
  std::vector<std::string>& notes = chart.caption.notes;
  notes.push_back(fmt::format("a point is the end of an epoch; {} of training{}",
                              chart.axis == CourseAxis::seconds   ? "the time is that"
                              : chart.axis == CourseAxis::samples ? "samples are those"
                                                                  : "steps are those",
                              chart.axis == CourseAxis::seconds ? ", without evaluation" : ""));
  if (!chart.losses.empty()) {
    notes.emplace_back(
        "the line of the loss is its mean since the reading before; a point is that "
        "of the epoch");
  }
  notes.push_back(repetitions_note(mapped(chart.points, &AccuracyPoint::trained)));
  if (chart.shown_from > 0) {
    notes.push_back(fmt::format("the axis of the {} begins at {}", chart.metric(),
                                accuracy_words(chart.shown_from)));
  }
}

}  // namespace

ScalingChart scaling_chart(std::span<const Report> reports) {
  const ChartRuns runs = chart_runs(reports, "Scaling", unfit_scaling, kAnyGroups);
  return chart_of<ScalingChart>("scaling", "Scaling", runs, [&](ScalingChart& chart) {
    const Doubts doubts = doubts_of(runs.drawn);
    for (const RunGroup& group : runs.groups)
      chart.points.push_back(point_of(group, doubts.at(group.runs[0])));
    add_ideals(runs, doubts, chart);
    chart.caption.notes.push_back(
        repetitions_note(mapped(chart.points, &ScalingPoint::samples_per_s)));
    note_missing_efficiency(chart);
  });
}

AccuracyChart accuracy_chart(std::span<const Report> reports, CourseAxis axis) {
  const ChartRuns runs = chart_runs(reports, "Accuracy", unfit_accuracy);
  return chart_of<AccuracyChart>("accuracy", "Accuracy", runs, [&](AccuracyChart& chart) {
    chart.axis = axis;
    chart.of_miou = std::ranges::all_of(runs.groups, tells_miou);
    chart.series.clear();
    for (const RunGroup& group : runs.groups) add_line(group, runs.series[group.series], chart);
    add_targets(runs, chart);
    chart.shown_from = beginning_of(chart);
    note_points(chart);
  });
}

}  // namespace ddpbench::report
