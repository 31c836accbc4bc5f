// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/ranges.h"
#include "bench/run/run_records.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kInStageWait = "activations move between stages within stage_wait_s";

using Ranks = std::span<const std::span<const launch::StepRecord>>;

// These phases exist for all strategies; a strategy adds its own.
bool is_common(Phase phase) {
  return phase == Phase::data_wait || phase == Phase::forward || phase == Phase::loss ||
         phase == Phase::backward || phase == Phase::optimizer;
}

// A strategy's own phases are told by the steps, however short they were: 0 s is a figure, too.
std::uint32_t phases_of(Ranks ranks) {
  std::uint32_t phases = 0;
  for (const auto& step : ranks | std::views::join) phases |= step.phases_observed;
  return phases;
}

bool is_observed(const launch::StepRecord& step) { return step.phases_observed != 0; }
bool knows_waits(const launch::StepRecord& step) {
  return is_observed(step) && step.waits_untold == 0;
}

// Takes a figure's maximum over ranks, then the median over the steps in which it was observed.
// `used`: whether a step's value is known.
template <typename Value>
report::Figure median_of_slowest(Ranks ranks, Value value,
                                 bool (*used)(const launch::StepRecord&) = is_observed) {
  // Ranks may observe at different intervals: only steps that all ranks observed are compared.
  std::map<std::uint32_t, std::pair<std::size_t, double>> by_step;  // ranks, their maximum
  for (const auto& step : ranks | std::views::join | std::views::filter(used)) {
    auto& [seen, maximum] = by_step[step.step];
    maximum = seen == 0 ? value(step) : std::max(maximum, value(step));
    ++seen;
  }
  std::erase_if(by_step, [&](const auto& step) { return step.second.first < ranks.size(); });
  const auto slowest = mapped(by_step, [](const auto& step) { return step.second.second; });
  if (slowest.empty()) return report::Figure::missing("phases were not observed");
  return report::Figure::of(report::median(slowest));
}

// The ratio is over all observed steps and ranks: a median of ratios would not weigh their times.
report::Figure overlap(Ranks ranks, bool (*used)(const launch::StepRecord&)) {
  double total = 0;
  double overlapped = 0;
  for (const auto& step : ranks | std::views::join | std::views::filter(used)) {
    total += step.comm_s;
    overlapped += step.comm_overlapped_s;
  }
  return report::overlap_ratio(total, overlapped);
}

std::string below_bound(double clock_bound_s) {
  return fmt::format("below {:.3g} us, within which the clocks of the hosts are known",
                     clock_bound_s * 1e6);
}

void add_communication(Ranks ranks, double clock_bound_s,
                       std::map<std::string, report::Figure>& figures) {
  // Where no step knows its waits, communication includes them.
  const bool known = std::ranges::any_of(ranks | std::views::join, knows_waits);
  const auto used = known ? knows_waits : is_observed;
  const bool has_stages = (phases_of(ranks) & bit_of(Phase::stage_wait)) != 0;
  const bool moves = std::ranges::any_of(ranks | std::views::join,
                                         [](const auto& step) { return step.comm_s > 0; });
  const auto take = [&](const char* key, auto value) {
    report::Figure figure = median_of_slowest(ranks, value, used);
    if (figure.value && has_stages && !moves) figure = report::Figure::missing(kInStageWait);
    const bool is_vague = figure.value && *figure.value < clock_bound_s;
    figures[key] = is_vague ? report::Figure::missing(below_bound(clock_bound_s)) : figure;
  };
  take("comm_s", [](const auto& step) { return step.comm_s; });
  take("comm_exposed_s", [](const auto& step) { return step.comm_s - step.comm_overlapped_s; });
  take("comm_wait_s", [](const auto& step) { return step.comm_wait_s; });
  take("comm_wait_exposed_s", [](const auto& step) { return step.comm_wait_exposed_s; });
  const report::Figure& comm = figures["comm_s"];
  figures["overlap_ratio"] =
      comm.value ? overlap(ranks, used) : report::Figure::missing(comm.reason);
  if (!comm.value || used == knows_waits) return;
  for (const char* key : {"comm_wait_s", "comm_wait_exposed_s"}) {
    figures[key] = report::Figure::missing(kUntoldWaiting);
  }
}

EpochResult sum_over(const std::vector<const RankResult*>& ranks, std::size_t epoch) {
  EpochResult sum = ranks[0]->epochs[epoch];
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const EpochResult& part = ranks[i]->epochs[epoch];
    sum.begin_s = std::min(sum.begin_s, part.begin_s);
    sum.end_s = std::max(sum.end_s, part.end_s);
    sum.saving_s = std::max(sum.saving_s, part.saving_s);
    sum.samples += part.samples;
    sum.counted += part.counted;
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
    sum.test_samples += part.test_samples;
    sum.test_loss_sum += part.test_loss_sum;
    sum.test_counted += part.test_counted;
    sum.test_correct += part.test_correct;
    report::add_counts(sum.test_classes, part.test_classes);
  }
  return sum;
}

report::Figure test_accuracy(const EpochResult& sum) {
  if (sum.test_samples == 0) return report::Figure::missing("no test samples");
  if (sum.test_counted == 0) {
    return report::Figure::missing("the network's loss ignores all labels of the test samples");
  }
  return report::Figure::of(static_cast<double>(sum.test_correct) /
                            static_cast<double>(sum.test_counted));
}

// The sums over all ranks after `step`; nothing where one of them has none.
std::optional<LossPoint> sum_after(std::int64_t step, const std::vector<RankCourse>& ranks) {
  LossPoint sum{.step = step};
  for (const RankCourse& rank : ranks) {
    const auto found = std::ranges::lower_bound(rank.points, step, {}, &LossPoint::step);
    if (found == rank.points.end() || found->step != step) return std::nullopt;
    sum.loss_sum += found->loss_sum;
    sum.correct += found->correct;
    sum.counted += found->counted;
  }
  return sum;
}

// One timed step on all ranks, and when its epoch began.
struct StepTimes {
  std::uint32_t epoch = 0, epoch_first_step = 0;
  double epoch_begin_s = 0, end_s = 0;
};

// The last step of the first `count`; nothing where a rank has not recorded it.
std::optional<StepTimes> times_of_last(std::int64_t count, const std::vector<RankCourse>& ranks) {
  std::optional<StepTimes> all;
  for (const auto& [points, steps] : ranks) {
    const auto last = std::ranges::lower_bound(steps, static_cast<std::uint32_t>(count - 1), {},
                                               &launch::StepRecord::step);
    if (last == steps.end() || last->step + 1 != count) return std::nullopt;
    const auto first = std::ranges::lower_bound(steps, last->epoch, {}, &launch::StepRecord::epoch);
    if (!all) all = StepTimes{last->epoch, first->step, first->begin_s, last->end_s};
    all->epoch_begin_s = std::min(all->epoch_begin_s, first->begin_s);
    all->end_s = std::max(all->end_s, last->end_s);
  }
  return all;
}

}  // namespace

std::map<std::string, report::Figure> phase_figures(Ranks ranks, double clock_bound_s) {
  std::map<std::string, report::Figure> figures;
  const std::uint32_t observed = phases_of(ranks);
  for (std::size_t p = 0; p < kPhaseCount; ++p) {
    const auto phase = static_cast<Phase>(p);
    if (!is_common(phase) && (observed & bit_of(phase)) == 0) continue;
    figures[std::string(to_string(phase)) + "_s"] =
        median_of_slowest(ranks, [p](const launch::StepRecord& step) { return step.phase_s[p]; });
  }
  const report::Figure locked_out = median_of_slowest(
      ranks, [](const launch::StepRecord& step) { return step.interpreter_wait_s; });
  if (locked_out.value.value_or(0) > 0) figures["interpreter_wait_s"] = locked_out;
  add_communication(ranks, clock_bound_s, figures);
  return figures;
}

std::map<std::string, report::Figure> replica_figures(
    std::span<const launch::ReplicaRecord> records, std::size_t replica) {
  constexpr const char* kPrimaryAlone = "only the primary device does this";
  std::map<std::string, report::Figure> figures;
  for (const char* key : {"data_wait_s", "scatter_s", "replicate_s", "gather_s", "loss_s",
                          "reduce_s", "optimizer_s", "comm_s", "comm_exposed_s", "overlap_ratio"}) {
    figures[key] = report::Figure::missing(kPrimaryAlone);
  }
  const auto take = [&](const char* key, double launch::ReplicaRecord::*member) {
    const auto is_of_it = [&](const auto& record) { return record.replica == replica; };
    std::vector<double> values = mapped(records | std::views::filter(is_of_it), member);
    figures[key] = values.empty() ? report::Figure::missing("phases were not observed")
                                  : report::Figure::of(report::median(std::move(values)));
  };
  take("forward_s", &launch::ReplicaRecord::forward_s);
  take("backward_s", &launch::ReplicaRecord::backward_s);
  take("comm_wait_s", &launch::ReplicaRecord::comm_wait_s);
  take("comm_wait_exposed_s", &launch::ReplicaRecord::comm_wait_s);  // nothing runs beside it
  take("idle_s", &launch::ReplicaRecord::idle_s);
  const auto take_any = [&](const char* key, double launch::ReplicaRecord::*member) {
    const auto has = [&](const launch::ReplicaRecord& record) { return record.*member > 0; };
    if (std::ranges::any_of(records, has)) take(key, member);
  };
  take_any("sync_batch_norm_s", &launch::ReplicaRecord::sync_s);
  take_any("interpreter_wait_s", &launch::ReplicaRecord::interpreter_wait_s);
  return figures;
}

std::vector<launch::StepRecord> whole_cycles(std::span<const launch::StepRecord> steps, int cycle) {
  std::vector<launch::StepRecord> whole;
  const auto length = static_cast<std::size_t>(cycle);
  for (std::size_t i = 0; i + length <= steps.size();) {
    const auto part = steps.subspan(i, length);
    if (part.back().epoch != part[0].epoch || part[0].skipped != 0) {
      ++i;
      continue;
    }
    const bool observed = std::ranges::all_of(part, is_observed);  // a trace may end within
    launch::StepRecord& mean = whole.emplace_back(launch::StepRecord{
        .epoch = part[0].epoch, .step = part[0].step, .begin_s = part[0].begin_s});
    mean.end_s = mean.begin_s;
    for (const launch::StepRecord& step : part) {
      mean.end_s += (step.end_s - step.begin_s) / cycle;
      for (double launch::StepRecord::*member :
           {&launch::StepRecord::comm_s, &launch::StepRecord::comm_overlapped_s,
            &launch::StepRecord::comm_wait_s, &launch::StepRecord::comm_wait_exposed_s,
            &launch::StepRecord::interpreter_wait_s}) {
        mean.*member += step.*member / cycle;
      }
      for (std::size_t p = 0; p < kPhaseCount; ++p) mean.phase_s[p] += step.phase_s[p] / cycle;
      if (observed) mean.phases_observed |= step.phases_observed;
      mean.waits_untold |= step.waits_untold;
    }
    i += length;
  }
  return whole;
}

std::vector<double> step_times(std::span<const launch::StepRecord> steps) {
  return mapped(steps, [](const auto& step) { return step.end_s - step.begin_s; });
}

std::vector<double> update_intervals(Ranks ranks) {
  std::map<std::uint32_t, launch::StepRecord> updates;  // what comes first of each step
  for (const launch::StepRecord& step : ranks | std::views::join) {
    launch::StepRecord& first = updates.try_emplace(step.step, step).first->second;
    first.begin_s = std::min(first.begin_s, step.begin_s);
    first.end_s = std::min(first.end_s, step.end_s);
  }
  std::vector<double> intervals;
  launch::StepRecord before{.epoch = UINT32_MAX};
  for (const auto& [number, update] : updates) {
    const double from_s = before.epoch == update.epoch ? before.end_s : update.begin_s;
    intervals.push_back(std::max(0.0, update.end_s - from_s));
    before = update;
  }
  return intervals;
}

std::vector<report::BucketRow> bucket_rows(std::span<const launch::BucketRecord> records,
                                           std::span<const launch::StepRecord> steps,
                                           double clock_bound_s) {
  struct Samples {
    std::uint64_t bytes = 0;
    std::vector<double> ready, start, arrived, end;
  };
  std::map<int, Samples> buckets;
  for (const auto& record : records) {
    const auto step = std::ranges::lower_bound(steps, record.step, {}, &launch::StepRecord::step);
    if (step == steps.end() || step->step != record.step) continue;
    const double begin = step->begin_s;
    Samples& samples = buckets[static_cast<int>(record.times.bucket)];
    samples.bytes = record.times.bytes;
    samples.ready.push_back(record.times.ready_s - begin);
    samples.start.push_back(record.times.start_s - begin);
    if (record.times.arrived_told) samples.arrived.push_back(record.times.arrived_s - begin);
    samples.end.push_back(record.times.end_s - begin);
  }
  std::vector<report::BucketRow> rows;
  for (auto& [bucket, samples] : buckets) {
    const double start_s = report::median(samples.start);
    std::string reason = samples.arrived.empty() ? kUntoldWaiting : "";
    double arrived_s = reason.empty() ? report::median(samples.arrived) : start_s;
    if (reason.empty() && arrived_s - start_s < clock_bound_s) {
      reason = "waiting is " + below_bound(clock_bound_s);
      arrived_s = start_s;
    }
    rows.push_back({bucket, samples.bytes, report::median(samples.ready), start_s, arrived_s,
                    report::median(samples.end), reason});
  }
  return rows;
}

std::vector<report::EpochRow> epoch_rows(const std::vector<const RankResult*>& ranks) {
  std::size_t complete = ranks.empty() ? 0 : SIZE_MAX;
  for (const RankResult* rank : ranks) complete = std::min(complete, rank->epochs.size());
  std::vector<report::EpochRow> rows;
  for (std::size_t e = 0; e < complete; ++e) {
    const EpochResult sum = sum_over(ranks, e);
    if (sum.samples == 0) continue;  // evaluated alone
    const auto counted = static_cast<double>(sum.counted);
    report::EpochRow& row = rows.emplace_back();
    row.epoch = sum.epoch;
    row.time_s = sum.end_s - sum.begin_s - sum.saving_s;
    row.samples = sum.samples;
    row.samples_per_s = static_cast<double>(sum.samples) / row.time_s;
    row.train_loss = sum.loss_sum / counted;
    row.train_accuracy = static_cast<double>(sum.correct) / counted;
    row.test_accuracy = test_accuracy(sum);
    row.test_miou = report::mean_iou(sum.test_classes);
  }
  return rows;
}

std::optional<report::Evaluation> evaluation_alone(const std::vector<const RankResult*>& ranks) {
  for (const RankResult* rank : ranks)
    if (rank->epochs.empty() || rank->epochs[0].samples > 0) return std::nullopt;
  if (ranks.empty()) return std::nullopt;
  const EpochResult sum = sum_over(ranks, 0);
  const double loss = sum.test_loss_sum / static_cast<double>(sum.test_counted);
  return report::Evaluation{
      sum.test_samples,
      std::isfinite(loss) ? report::Figure::of(loss) : report::Figure::missing("it is not finite"),
      test_accuracy(sum), report::mean_iou(sum.test_classes)};
}

std::vector<report::ProgressPoint> progress_points(const std::vector<RankCourse>& ranks,
                                                   const report::Run& run, std::int64_t batch) {
  std::vector<report::ProgressPoint> rows;
  if (ranks.empty() || ranks[0].steps.empty()) return rows;
  const std::vector<report::EpochRow>& epochs = run.epochs;
  const std::uint32_t first_epoch = ranks[0].steps.front().epoch;
  const std::int64_t before_run = run.resumed ? run.resumed->step : 0;
  LossPoint before;
  for (const LossPoint& candidate : ranks[0].points) {
    const std::optional<LossPoint> sum = sum_after(candidate.step, ranks);
    if (!sum || sum->counted == before.counted) continue;
    const std::optional<StepTimes> times = times_of_last(sum->step, ranks);
    if (!times || epochs.size() < times->epoch - first_epoch) break;
    const auto counted = static_cast<double>(sum->counted - before.counted);
    report::ProgressPoint& row = rows.emplace_back();
    row.step = sum->step;
    row.train_loss = (sum->loss_sum - before.loss_sum) / counted;
    row.train_accuracy = static_cast<double>(sum->correct - before.correct) / counted;
    row.epoch = static_cast<int>(times->epoch);
    row.samples = row.step * batch;
    for (std::size_t e = 0; e < times->epoch - first_epoch; ++e) row.train_s += epochs[e].time_s;
    row.train_s += times->end_s - times->epoch_begin_s;
    for (const report::CheckpointRow& save : run.checkpoints) {
      const std::int64_t after = save.step - before_run;
      if (after > times->epoch_first_step && after < row.step) row.train_s -= save.held_s;
    }
    before = *sum;
  }
  return rows;
}

}  // namespace ddpbench::bench
