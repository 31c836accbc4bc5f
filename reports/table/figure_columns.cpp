// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The columns of what a run measured, and of what its repetitions did. The headings of the default
// ones are narrow enough for two blocks of 80 characters to hold all of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"
#include "reports/table/columns.h"

namespace ddpbench::report {
namespace {

constexpr const char* kNoSteps = "no step was timed";
constexpr const char* kNoMemory = "no memory was recorded";
constexpr const char* kNoEpoch = "no epoch ended";

template <double StepStatistics::*member>
Figure step_figure(const Run& run) {
  return run.step.time_s ? Figure::of((*run.step.time_s).*member) : Figure::missing(kNoSteps);
}

Figure step_iqr(const Run& run) {
  return run.step.time_s ? run.step.time_s->iqr : Figure::missing(kNoSteps);
}

// "20.00 (1.00)".
Column step_column() {
  Column column = with_figure({.name = "step",
                               .top = "step ms",
                               .bottom = "median (IQR)",
                               .about = "step time of the slowest rank: median and IQR"},
                              "step_time_median_s", kMilliseconds,
                              step_figure<&StepStatistics::median>, Better::smaller);
  column.cell = [median = column.cell](const RunRow& row, Footnotes& notes) {
    if (!row.run->step.time_s) return median(row, notes);
    const Figure iqr = step_iqr(*row.run);
    return fmt::format("{} ({})", median(row, notes),
                       iqr.value ? fixed(*iqr.value, kMilliseconds) : "-");
  };
  column.fields.push_back(field("step_time_iqr_s", Role::measure,
                                [](const RunRow& row) { return step_iqr(*row.run); }));
  return column;
}

template <double Scaling::*member>
Figure scaling_figure(const Run& run) {
  return run.scaling ? Figure::of((*run.scaling).*member) : Figure::missing(run.scaling_reason);
}

template <double Scaling::*member>
Column scaling_column(Column column, const char* key, Format format, Better better) {
  column = with_figure(std::move(column), key, format, scaling_figure<member>, better);
  column.cell = [plain = column.cell](const RunRow& row, Footnotes& notes) -> std::string {
    const Run& run = *row.run;
    if (!run.scaling && run.oversubscribed) return "-*";
    std::string cell = plain(row, notes);
    if (run.scaling && run.scaling->baseline != kBaseline) {
      cell += notes.mark("against " + run.scaling->baseline);
    }
    return cell;
  };
  return column;
}

// The median over the epochs that ended.
Figure epoch_time(const Run& run) {
  std::vector<double> times;
  for (const EpochRow& epoch : run.epochs) times.push_back(epoch.time_s);
  return times.empty() ? Figure::missing(kNoEpoch) : Figure::of(median(std::move(times)));
}

// Whether --steps ended the epochs before they had seen the whole training set. An incomplete batch
// may be left out at the end of a whole one.
bool has_cut_epochs(const Run& run) {
  return !run.epochs.empty() && run.train_samples > 0 &&
         run.epochs.back().samples + run.global_batch_size <= run.train_samples;
}

Column epoch_column() {
  Column column =
      with_figure({.name = "epoch",
                   .top = "epoch",
                   .bottom = "s",
                   .about = "time of an epoch, the median over epochs; without evaluation"},
                  "epoch_time_s", kSeconds, epoch_time);
  column.cell = [plain = column.cell](const RunRow& row, Footnotes& notes) {
    const Run& run = *row.run;
    std::string cell = plain(row, notes);
    if (has_cut_epochs(run)) {
      cell += notes.mark(fmt::format("epochs of {} of {} samples (--steps)",
                                     run.epochs.back().samples, run.train_samples));
    }
    return cell;
  };
  return column;
}

Figure primary_memory(const Run& run) {
  for (const DeviceRow& device : run.devices) {
    if (device.role == "worker" && device.rank == 0) return device.peak_memory();
  }
  return Figure::missing(kNoMemory);
}

// The largest peak of the other workers, so that an outlier shows.
Figure other_memory(const Run& run) {
  Figure most = Figure::missing(run.world_size == 1 ? "one device" : kNoMemory);
  for (const DeviceRow& device : run.devices) {
    if (device.role != "worker" || device.rank == 0) continue;
    const Figure peak = device.peak_memory();
    if (!peak.value) return peak;
    most = Figure::of(std::max(most.value.value_or(0), *peak.value));
  }
  return most;
}

Figure last_loss(const Run& run) {
  if (run.epochs.empty()) return Figure::missing(kNoEpoch);
  const double loss = run.epochs.back().train_loss;
  if (run.status == Status::diverged) return Figure::missing(status_note(run));
  return std::isfinite(loss) ? Figure::of(loss) : Figure::missing(kDivergedReason);
}

Figure last_accuracy(const Run& run) {
  return run.epochs.empty() ? Figure::missing(kNoEpoch) : run.epochs.back().test_accuracy;
}

std::string verified_cell(const RunRow& row, Footnotes& notes) {
  const Verification& verification = row.run->verification;
  const auto with_reason = [&](const std::string& word) {
    return verification.reason.empty() ? word : word + notes.mark(verification.reason);
  };
  if (verification.status == "passed") return "yes";
  if (verification.status == "failed") return with_reason("NO");
  if (verification.status == "diverged") return with_reason("diverged");
  if (verification.status == "not_applicable") return with_reason("n/a");
  if (verification.status == "reference") return "ref.";
  return verification.status;
}

Column verified_column() {
  return {.name = "verified",
          .bottom = "verified",
          .about = "whether it computed what the reference did",
          .cell = verified_cell,
          .fields = {field("verification_status", Role::remark,
                           [](const RunRow& row) { return row.run->verification.status; }),
                     field("verification_max_relative_error", Role::measure, [](const RunRow& row) {
                       return row.run->verification.max_relative_error;
                     })}};
}

// "96/44/43/44": a number for each worker, in the order of their ranks. Why no worker's share is
// known: the first worker's reason.
FieldValue busy_shares(const RunRow& row) {
  const Run& run = *row.run;
  std::vector<std::string> shares;
  Figure first = Figure::missing("no device was recorded");
  for (const DeviceRow& device : run.devices) {
    if (device.role != "worker") continue;
    const Figure share = busy_share(device);
    if (shares.empty()) first = share;
    shares.push_back(share.value ? fixed(*share.value, {0.01, 0}) : "-");
  }
  if (least_busy(run) == nullptr) return {{}, missing_reason(first, run)};
  return {fmt::format("{}", fmt::join(shares, "/"))};
}

Column busy_column() {
  return {.name = "busy",
          .top = "busy",
          .bottom = "% a device",
          .about = "share of the step in which each device computes, by rank",
          .cell =
              [](const RunRow& row, Footnotes& notes) {
                const FieldValue shares = busy_shares(row);
                const auto* text = std::get_if<std::string>(&shares.value);
                return text == nullptr ? missing_cell(shares.reason, notes) : *text;
              },
          .fields = {{"busy_percent_by_rank", Role::remark, Better::neither, busy_shares}}};
}

Column peak_share_column() {
  Column column = with_figure(
      {.name = "peak-share",
       .top = "share",
       .bottom = "of peak %",
       .about = "the same as a share of the peak that was measured on the devices in the run's "
                "precision"},
      "peak_flops_ratio", kPercentage, peak_share);
  column.cell = [plain = column.cell](const RunRow& row, Footnotes& notes) {
    std::string cell = plain(row, notes);
    if (peak_share(*row.run).value.value_or(0) <= 1) return cell;
    return cell + notes.mark(
                      "above 100 %: operations are counted as those of direct convolutions, "
                      "of which Winograd makes fewer; or the clock was lower when the peak "
                      "was measured");
  };
  return column;
}

Column to_accuracy_column() {
  Column column = with_figure({.name = "to-accuracy",
                               .top = "to acc.",
                               .bottom = "s",
                               .about = "training time until --until-accuracy was reached"},
                              "time_to_accuracy_s", kSeconds, time_to_accuracy, Better::smaller);
  column.cell = [plain = column.cell](const RunRow& row, Footnotes& notes) {
    std::string cell = plain(row, notes);
    if (row.repeated != nullptr && !row.repeated->accuracy_note.empty()) {
      cell += notes.mark(row.repeated->accuracy_note);
    }
    return cell;
  };
  column.fields.push_back(field("until_accuracy", Role::remark, [](const RunRow& row) {
    return row.run->until_accuracy ? Figure::of(row.run->until_accuracy->target)
                                   : Figure::missing("no --until-accuracy");
  }));
  return column;
}

Figure sync_batch_norm_s(const Run& run) {
  constexpr const char* kPhase = "sync_batch_norm_s";
  if (!run.phases.empty() && !run.phases.contains(kPhase)) {
    return Figure::missing("no batch norm is synchronised");
  }
  return phase_figure(run, kPhase);
}

template <auto kMember>
Figure traffic(const Run& run) {
  if (run.traffic.value) return Figure::of(static_cast<double>((*run.traffic.value).*kMember));
  return Figure::missing(run.traffic.reason.empty() ? "not recorded" : run.traffic.reason);
}

std::vector<Column> default_figures() {
  return {
      step_column(),
      with_figure(
          {"rate", "samples", "/s", "samples a second"}, "samples_per_s", kPlain,
          [](const Run& run) { return run.samples_per_s; }, Better::bigger),
      with_figure({"device-rate", "/s per", "device", "samples a second and device", true},
                  "samples_per_s_per_device", kPlain,
                  [](const Run& run) { return run.samples_per_s_per_device; }),
      scaling_column<&Scaling::speedup>({"speedup", "speed-", "up", "throughput against single's"},
                                        "speedup", {1, 2}, Better::neither),
      scaling_column<&Scaling::efficiency>({"efficiency", "eff.", "%", "speed-up / devices", true},
                                           "efficiency", kPercentage, Better::bigger),
      epoch_column(),
      with_phase({"comm", "comm", "ms", "communication in a step"}, "comm_s"),
      with_phase({"exposed", "exposed", "ms", "communication not hidden by compute", true},
                 "comm_exposed_s"),
      with_figure({"memory", "peak MiB", "primary", "peak memory of device 0"},
                  "primary_peak_bytes", kMebibytes, primary_memory, Better::smaller),
      with_figure(
          {"other-memory", "peak MiB", "others", "largest peak memory of the other workers", true},
          "others_peak_bytes", kMebibytes, other_memory, Better::smaller),
      with_figure({"loss", "train", "loss", "training loss of the last epoch"}, "train_loss",
                  {1, 4}, last_loss),
      with_figure({"accuracy", "test", "acc. %", "test accuracy after the last epoch", true},
                  "test_accuracy", {0.01, 2}, last_accuracy),
      verified_column()};
}

std::vector<Column> further_figures() {
  constexpr Format kMegabytes{1e6, 2};
  return {with_value({"steps", "", "steps", "timed steps"}, "step_count", Role::measure,
                     [](const RunRow& row) { return row.run->step.count; }),
          with_figure({"step-p95", "step ms", "p95", "step time, 95 %"}, "step_time_p95_s",
                      kMilliseconds, step_figure<&StepStatistics::p95>),
          with_figure({"step-max", "step ms", "max", "longest step"}, "step_time_max_s",
                      kMilliseconds, step_figure<&StepStatistics::max>),
          with_phase({"wait", "data", "wait ms", "waiting for input in a step"}, "data_wait_s"),
          with_phase({"forward", "forward", "ms", "forward pass in a step"}, "forward_s"),
          with_phase({"backward", "backward", "ms", "backward pass in a step"}, "backward_s"),
          with_phase({"optimizer", "optim.", "ms", "update in a step"}, "optimizer_s"),
          with_figure({"sync", "batch norm", "sync ms",
                       "exchanging batch norm's statistics between devices in a step"},
                      "sync_batch_norm_s", kMilliseconds, sync_batch_norm_s),
          with_figure({"others-idle", "others", "idle ms",
                       "dp: wait or idleness of the devices beside the primary in a step"},
                      "others_idle_s", kMilliseconds, others_idle),
          busy_column(),
          with_figure({"flops", "GFLOP/s", "a device",
                       "operations of forward and backward a second and device"},
                      "flops_per_s_per_device", {1e9, 1}, flops_per_s_per_device),
          peak_share_column(),
          with_phase({"overlap", "overlap", "%", "share of communication hidden by compute"},
                     "overlap_ratio"),
          with_figure({"train", "train", "s", "training"}, "train_s", kSeconds,
                      [](const Run& run) { return run.time.train_s; }),
          with_figure({"total", "total", "s", "the whole run"}, "total_s", kSeconds,
                      [](const Run& run) { return run.time.total_s; }),
          to_accuracy_column(),
          with_figure({"messages", "messages", "a step",
                       "what devices and servers send each other in a step"},
                      "step_messages", kPlain, traffic<&StepTraffic::messages>),
          with_figure({"wire", "on wire", "MB", "the bytes of these messages, of all together"},
                      "step_wire_bytes", kMegabytes, traffic<&StepTraffic::bytes>),
          with_figure({"busiest-messages", "busiest", "messages",
                       "the most that one device or server sends in a step, or receives if that is "
                       "more"},
                      "step_busiest_messages", kPlain, traffic<&StepTraffic::busiest_messages>),
          with_figure({"busiest-wire", "busiest", "MB", "the same in bytes"},
                      "step_busiest_wire_bytes", kMegabytes, traffic<&StepTraffic::busiest_bytes>)};
}

// ---- condensed rows (metrics/repetitions.h) ----

constexpr const char* kOneRepetition = "one repetition: the noise is unknown";

Field end_field(const char* key, MedianSpread RepeatedRuns::*spread, Figure MedianSpread::*end) {
  return field(key, Role::remark, [spread, end](const RunRow& row) {
    if (row.repeated == nullptr) return Figure::missing(kOneRepetition);
    return (*row.repeated).*spread.*end;
  });
}

// "1.88 (1.85..1.90)"; the cell of the column `plain` where nothing is known of the noise: it says
// why a figure is missing, and what a speed-up is measured against.
Column spread_column(Column column, const char* plain, const char* low_key, const char* high_key,
                     Format format, MedianSpread RepeatedRuns::*spread,
                     Figure (*middle)(const Run&)) {
  column.cell = [plain, format, spread, middle](const RunRow& row, Footnotes& notes) {
    const Figure figure = middle(*row.run);
    // The one of the step has the spread of steps in brackets.
    const bool own_text = figure.value && plain == std::string_view("step");
    const std::string text =
        own_text ? fixed(*figure.value, format) : find_column(plain)->cell(row, notes);
    if (!figure.value || row.repeated == nullptr) return text;
    const MedianSpread& ends = (*row.repeated).*spread;
    if (!ends.low.value || !ends.high.value) return text;
    return fmt::format("{} ({}..{})", text, fixed(*ends.low.value, format),
                       fixed(*ends.high.value, format));
  };
  column.fields = {end_field(low_key, spread, &MedianSpread::low),
                   end_field(high_key, spread, &MedianSpread::high)};
  return column;
}

Column count_of_repetitions() {
  Column column = {
      .name = "repetitions", .bottom = "reps", .about = "repetitions of the setting", .key = true};
  column.cell = [](const RunRow& row, Footnotes&) -> std::string {
    if (row.repeated == nullptr) return "1";
    const std::size_t all = row.repeated->runs.size(), timed = row.repeated->timed;
    return timed == all ? std::to_string(all) : fmt::format("{} of {}", timed, all);
  };
  const auto count = [](const RunRow& row) -> Fact {
    return static_cast<std::int64_t>(row.repeated == nullptr ? 1 : row.repeated->runs.size());
  };
  const auto timed = [](const RunRow& row) -> Fact {
    if (row.repeated != nullptr) return static_cast<std::int64_t>(row.repeated->timed);
    return std::int64_t{row.run->status == Status::ok && row.run->step.time_s ? 1 : 0};
  };
  const auto kind = [](const RunRow& row) -> Fact {
    if (row.repeated == nullptr || row.repeated->step_s.kind == SpreadKind::none) {
      return Figure::missing(kOneRepetition);
    }
    return std::string(to_string(row.repeated->step_s.kind));
  };
  column.fields = {field("repetitions", Role::remark, count),
                   field("timed_repetitions", Role::remark, timed),
                   field("interval", Role::remark, kind)};
  return column;
}

}  // namespace

std::vector<Column> figure_columns() {
  std::vector<Column> columns = default_figures();
  for (Column& column : columns) column.in_table = true;
  for (Column& column : further_figures()) columns.push_back(std::move(column));
  return columns;
}

std::vector<Column> repetition_columns() {
  return {count_of_repetitions(),
          spread_column({"step-interval", "step ms", "median (interval)",
                         "step time: median over repetitions and how far they reach"},
                        "step", "step_time_low_s", "step_time_high_s", kMilliseconds,
                        &RepeatedRuns::step_s,
                        [](const Run& run) {
                          return run.step.time_s ? Figure::of(run.step.time_s->median) : Figure{};
                        }),
          spread_column({"speedup-interval", "speed-up", "(interval)",
                         "speed-up: median over repetitions and how far they reach"},
                        "speedup", "speedup_low", "speedup_high", {1, 2}, &RepeatedRuns::speedup,
                        [](const Run& run) {
                          return run.scaling ? Figure::of(run.scaling->speedup) : Figure{};
                        }),
          spread_column({"efficiency-interval", "eff. %", "(interval)",
                         "efficiency: median over repetitions and how far they reach", true},
                        "efficiency", "efficiency_low", "efficiency_high", kPercentage,
                        &RepeatedRuns::efficiency,
                        [](const Run& run) {
                          return run.scaling ? Figure::of(run.scaling->efficiency) : Figure{};
                        }),
          spread_column({"to-accuracy-interval", "to acc. s", "(interval)",
                         "training time to the accuracy: median over repetitions and how far they "
                         "reach"},
                        "to-accuracy", "time_to_accuracy_low_s", "time_to_accuracy_high_s",
                        kSeconds, &RepeatedRuns::to_accuracy_s, time_to_accuracy)};
}

}  // namespace ddpbench::report
