// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The columns that the summary table shows by default, in its order. The headings are narrow enough
// for two blocks of 80 characters to hold all of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/data/report.h"
#include "reports/data/strategies.h"
#include "reports/metrics/condensed_rows.h"
#include "reports/metrics/metrics.h"
#include "reports/table/column_makers.h"

namespace ddpbench::report {
namespace {

constexpr const char* kNoSteps = "no step was timed";
constexpr const char* kNoMemory = "no memory was recorded";
constexpr const char* kNoEpoch = "no epoch ended";

Column strategy_column() {
  Column column = identity_column({"strategy", "", "strategy", ""}, "strategy",
                                  [](const RunRow& row) { return row.run->strategy; });
  for (const StrategyRow& row : strategy_rows()) {
    column.about += fmt::format("{}{}", column.about.empty() ? "" : ", ", row.name);
  }
  column.key = true;
  return column;
}

// "2+1*(3)": two workers and a server, oversubscribed, with a note on the whole run.
std::string devices_cell(const RunRow& row, Footnotes& notes) {
  const Run& run = *row.run;
  std::string cell = std::to_string(run.world_size);
  if (run.servers > 0) cell += fmt::format("+{}", run.servers);
  if (run.oversubscribed) cell += '*';
  if (run.status != Status::ok && !is_bare(run)) cell += notes.mark(status_note(run));
  if (!run.injected.empty()) cell += notes.mark("injected: " + run.injected);
  if (row.repeated != nullptr && !row.repeated->note.empty()) {
    cell += notes.mark(row.repeated->note);
  }
  if (!row.marks.empty()) cell += fmt::format("[{}]", row.marks);
  return cell;
}

Column devices_column() {
  Column column = heading_only(
      {"devices", "", "devices", "replicas, +parameter servers, * when oversubscribed"});
  column.key = column.left = true;
  column.cell = devices_cell;
  column.fields = {count_field("world_size", Role::identity,
                               [](const Run& run) -> std::int64_t { return run.world_size; }),
                   count_field("servers", Role::identity,
                               [](const Run& run) -> std::int64_t { return run.servers; }),
                   flag_field("oversubscribed", [](const Run& run) { return run.oversubscribed; })};
  return column;
}

Column batch_column() {
  Column column = heading_only({"batch", "batch", "each/all", "batch per device and of a step"});
  column.cell = [](const RunRow& row, Footnotes& notes) {
    if (row.run->per_device_batch_size == 0) {
      return missing_cell("the batch size is not recorded", notes);
    }
    return fmt::format("{}/{}", row.run->per_device_batch_size, row.run->global_batch_size);
  };
  column.fields = {count_field("per_device_batch_size", Role::identity,
                               [](const Run& run) { return run.per_device_batch_size; }),
                   count_field("global_batch_size", Role::identity,
                               [](const Run& run) { return run.global_batch_size; })};
  return column;
}

template <double StepStatistics::*member>
Figure step_figure(const Run& run) {
  return run.step.time_s ? Figure::of((*run.step.time_s).*member) : Figure::missing(kNoSteps);
}

// Reports of older versions give 0 for the spread of one step.
Figure step_iqr(const Run& run) {
  if (!run.step.time_s) return Figure::missing(kNoSteps);
  if (run.step.count == 1) return Figure::missing("one step has no spread");
  return run.step.time_s->iqr;
}

std::string step_cell(const RunRow& row, Footnotes& notes) {
  const auto& time = row.run->step.time_s;
  if (!time) return missing_cell(kNoSteps, notes);
  const bool spread = step_iqr(*row.run).value.has_value();
  return fmt::format("{} ({})", fixed(time->median, kMilliseconds),
                     spread ? fixed(*time->iqr.value, kMilliseconds) : "-");
}

Column step_column() {
  Column column = heading_only(
      {"step", "step ms", "median (IQR)", "step time of the slowest rank: median and IQR"});
  column.cell = step_cell;
  column.fields = {
      figure_field("step_time_median_s", Better::smaller, step_figure<&StepStatistics::median>),
      figure_field("step_time_iqr_s", Better::neither, step_iqr)};
  return column;
}

template <double Scaling::*member>
Figure scaling_figure(const Run& run) {
  return run.scaling ? Figure::of((*run.scaling).*member) : Figure::missing(run.scaling_reason);
}

template <double Scaling::*member>
Column scaling_column(const Heading& heading, const char* key, Format format, Better better) {
  Column column = figure_column(heading, key, format, better, scaling_figure<member>);
  column.cell = [format](const RunRow& row, Footnotes& notes) -> std::string {
    const Run& run = *row.run;
    if (!run.scaling && run.oversubscribed) return "-*";
    std::string cell = figure_cell(scaling_figure<member>(run), format, run, notes);
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
  Column column = figure_column(
      {"epoch", "epoch", "s", "time of an epoch, the median over epochs; without evaluation"},
      "epoch_time_s", kSeconds, Better::neither, epoch_time);
  column.cell = [](const RunRow& row, Footnotes& notes) {
    const Run& run = *row.run;
    std::string cell = figure_cell(epoch_time(run), kSeconds, run, notes);
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
  std::uint64_t most = 0;
  bool any = false;
  for (const DeviceRow& device : run.devices) {
    if (device.role != "worker" || device.rank == 0) continue;
    if (!device.peak_reason.empty()) return device.peak_memory();
    most = std::max(most, device.peak_bytes);
    any = true;
  }
  if (any) return Figure::of(static_cast<double>(most));
  return Figure::missing(run.world_size == 1 ? "one device" : kNoMemory);
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
  Column column =
      heading_only({"verified", "", "verified", "whether it computed what the reference did"});
  column.cell = verified_cell;
  column.fields = {
      text_field("verification_status", Role::remark,
                 [](const RunRow& row) { return row.run->verification.status; }),
      figure_field("verification_max_relative_error", Better::neither,
                   [](const Run& run) { return run.verification.max_relative_error; })};
  return column;
}

}  // namespace

std::vector<Column> default_columns() {
  std::vector<Column> columns = {
      strategy_column(),
      devices_column(),
      batch_column(),
      step_column(),
      figure_column({"rate", "samples", "/s", "samples a second"}, "samples_per_s", kPlain,
                    Better::bigger, [](const Run& run) { return run.samples_per_s; }),
      figure_column({"device-rate", "/s per", "device", "samples a second and device", true},
                    "samples_per_s_per_device", kPlain, Better::neither,
                    [](const Run& run) { return run.samples_per_s_per_device; }),
      scaling_column<&Scaling::speedup>({"speedup", "speed-", "up", "throughput against single's"},
                                        "speedup", {1, 2}, Better::neither),
      scaling_column<&Scaling::efficiency>({"efficiency", "eff.", "%", "speed-up / devices", true},
                                           "efficiency", kPercentage, Better::bigger),
      epoch_column(),
      phase_column({"comm", "comm", "ms", "communication in a step"}, "comm_s"),
      phase_column({"exposed", "exposed", "ms", "communication not hidden by compute", true},
                   "comm_exposed_s"),
      figure_column({"memory", "peak MiB", "primary", "peak memory of device 0"},
                    "primary_peak_bytes", kMebibytes, Better::smaller, primary_memory),
      figure_column(
          {"other-memory", "peak MiB", "others", "largest peak memory of the other workers", true},
          "others_peak_bytes", kMebibytes, Better::smaller, other_memory),
      figure_column({"loss", "train", "loss", "training loss of the last epoch"}, "train_loss",
                    {1, 4}, Better::neither, last_loss),
      figure_column({"accuracy", "test", "acc. %", "test accuracy after the last epoch", true},
                    "test_accuracy", {0.01, 2}, Better::neither, last_accuracy),
      verified_column()};
  for (Column& column : columns) column.in_table = true;
  return columns;
}

}  // namespace ddpbench::report
