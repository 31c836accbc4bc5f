// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Further columns: for --columns, and for the formats that programs read.
#include <fmt/format.h>

#include "reports/data/report.h"
#include "reports/metrics/condensed_rows.h"
#include "reports/metrics/metrics.h"
#include "reports/table/column_makers.h"

namespace ddpbench::report {
namespace {

template <double StepStatistics::*member>
Column step_quantile(const Heading& heading, const char* key) {
  return figure_column(heading, key, kMilliseconds, Better::neither, [](const Run& run) {
    return run.step.time_s ? Figure::of((*run.step.time_s).*member)
                           : Figure::missing("no step was timed");
  });
}

template <Figure Times::*member>
Column time_column(const Heading& heading, const char* key) {
  return figure_column(heading, key, kSeconds, Better::neither,
                       [](const Run& run) { return run.time.*member; });
}

std::string options_text(const RunRow& row) {
  std::vector<std::string> words;
  for (const auto& [name, value] : row.run->strategy_options) words.push_back(name + "=" + value);
  return fmt::format("{}", fmt::join(words, ","));
}

// "adam,lr=0.001,lr_schedule=cosine": name, numbers and choices of the optimizer.
std::string update_text(const RunRow& row) {
  const Run& run = *row.run;
  if (run.optimizer_name.empty() || run.optimizer_name == "unknown") return "";  // of an import
  std::vector<std::string> words = {run.optimizer_name};
  for (const auto& [name, value] : run.optimizer)
    words.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : run.optimizer_choices) words.push_back(name + "=" + value);
  return fmt::format("{}", fmt::join(words, ","));
}

// A text that may be absent: "-" in the table. With `reason` null nothing is missing then, and
// programs get "".
Column optional_text(Column column, const char* reason) {
  const auto get = column.fields.front().value;
  column.fields.front().value = [get, reason](const RunRow& row) {
    FieldValue value = get(row);
    if (value.value.index() != 0) return value;
    return reason == nullptr ? FieldValue{std::string()} : FieldValue{{}, reason};
  };
  column.cell = [get](const RunRow& row, Footnotes&) -> std::string {
    const FieldValue value = get(row);
    return value.value.index() == 0 ? "-" : std::get<std::string>(value.value);
  };
  return column;
}

// Why no worker's share is known: the first worker's reason.
Figure least_busy_share(const Run& run) {
  if (const DeviceRow* device = least_busy(run)) return busy_share(*device);
  for (const DeviceRow& device : run.devices) {
    if (device.role == "worker") return busy_share(device);
  }
  return Figure::missing("no device was recorded");
}

// "96/44/43/44": a number for each worker, in the order of their ranks.
std::string busy_shares(const RunRow& row) {
  std::vector<std::string> shares;
  if (least_busy(*row.run) == nullptr) return "";
  for (const DeviceRow& device : row.run->devices) {
    if (device.role != "worker") continue;
    const Figure share = busy_share(device);
    shares.push_back(share.value ? fixed(*share.value, {0.01, 0}) : "-");
  }
  return fmt::format("{}", fmt::join(shares, "/"));
}

Column busy_column() {
  Column column = identity_column(
      {"busy", "busy", "% a device", "share of the step in which each device computes, by rank"},
      "busy_percent_by_rank", busy_shares);
  column.left = false;
  column.fields.front().role = Role::remark;
  column.cell = [](const RunRow& row, Footnotes& notes) {
    const std::string shares = busy_shares(row);
    return shares.empty() ? figure_cell(least_busy_share(*row.run), kPercentage, *row.run, notes)
                          : shares;
  };
  column.fields.front().value = [](const RunRow& row) -> FieldValue {
    const std::string shares = busy_shares(row);
    if (!shares.empty()) return {shares};
    return {{}, missing_reason(least_busy_share(*row.run), *row.run)};
  };
  return column;
}

// "43.1 (cpu:2)".
Column least_busy_column() {
  Column column = figure_column(
      {"least-busy", "least", "busy %", "the device that computes the least share of its step"},
      "least_busy_ratio", kPercentage, Better::neither, least_busy_share);
  column.cell = [](const RunRow& row, Footnotes& notes) {
    const std::string cell = figure_cell(least_busy_share(*row.run), kPercentage, *row.run, notes);
    const DeviceRow* device = least_busy(*row.run);
    return device == nullptr || row.run->world_size == 1
               ? cell
               : fmt::format("{} ({})", cell, device->device);
  };
  return column;
}

Column peak_share_column() {
  Column column = figure_column(
      {"peak-share", "share", "of peak %",
       "the same as a share of the peak that was measured on the devices in the run's precision"},
      "peak_flops_ratio", kPercentage, Better::neither, peak_share);
  const auto plain = column.cell;
  column.cell = [plain](const RunRow& row, Footnotes& notes) {
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
  Column column = figure_column(
      {"to-accuracy", "to acc.", "s", "training time until --until-accuracy was reached"},
      "time_to_accuracy_s", kSeconds, Better::smaller, time_to_accuracy);
  const auto plain = column.cell;
  column.cell = [plain](const RunRow& row, Footnotes& notes) {
    std::string cell = plain(row, notes);
    if (row.repeated != nullptr && !row.repeated->accuracy_note.empty()) {
      cell += notes.mark(row.repeated->accuracy_note);
    }
    return cell;
  };
  column.fields.push_back(figure_field("until_accuracy", Better::neither, [](const Run& run) {
    return run.until_accuracy ? Figure::of(run.until_accuracy->target)
                              : Figure::missing("no --until-accuracy");
  }));
  column.fields.back().role = Role::remark;
  return column;
}

Column report_column() {
  Column column =
      optional_text(identity_column({"report", "", "report", "file that the run is from"}, "report",
                                    [](const RunRow& row) { return row.file; }),
                    "not from a file");
  column.key = true;
  return column;
}

Column repetition_column() {
  Column column = count_column(
      {"repetition", "", "rep.", "number of the repetition, from 1 (key: from 0)"}, "repetition",
      Role::identity, [](const Run& run) -> std::int64_t { return run.repetition; });
  // Counts like the progress lines.
  column.cell = [](const RunRow& row, Footnotes&) {
    return row.repeated != nullptr ? "all" : std::to_string(row.run->repetition + 1);
  };
  const auto number = column.fields.front().value;
  column.fields.front().value = [number](const RunRow& row) {
    return row.repeated != nullptr ? FieldValue{{}, "the row stands for all repetitions"}
                                   : number(row);
  };
  column.key = true;
  return column;
}

Column status_column() {
  Column column =
      heading_only({"status", "", "status", "ok, diverged, failed, skipped, interrupted"});
  column.left = true;
  column.cell = [](const RunRow& row, Footnotes& notes) {
    const std::string word(to_string(row.run->status));
    return row.run->status == Status::ok ? word : word + notes.mark(status_note(*row.run));
  };
  column.fields = {text_field("status", Role::remark, [](const RunRow& row) {
    return std::string(to_string(row.run->status));
  })};
  return column;
}

Column baseline_column() {
  Column column = identity_column(
      {"baseline", "", "baseline", "what speed-up is measured against"}, "scaling_baseline",
      [](const RunRow& row) { return row.run->scaling ? row.run->scaling->baseline : ""; });
  column.fields.front().role = Role::remark;
  column.cell = [](const RunRow& row, Footnotes& notes) {
    const Run& run = *row.run;
    if (run.scaling) return run.scaling->baseline;
    return missing_cell(missing_reason(Figure::missing(run.scaling_reason), run), notes);
  };
  column.fields.front().value = [](const RunRow& row) -> FieldValue {
    const Run& run = *row.run;
    if (run.scaling) return {run.scaling->baseline};
    return {{}, missing_reason(Figure::missing(run.scaling_reason), run)};
  };
  return column;
}

Column remark_column(Column column, const char* reason) {
  column.fields.front().role = Role::remark;
  return optional_text(std::move(column), reason);
}

std::vector<Column> setting_columns() {
  return {
      report_column(),
      repetition_column(),
      status_column(),
      identity_column({"device", "", "device", "kind of device"}, "device",
                      [](const RunRow& row) { return row.run->device; }),
      optional_text(
          identity_column({"device-model", "device", "model", "model of the device"},
                          "device_model", [](const RunRow& row) { return row.run->device_model; }),
          "not recorded"),
      count_column({"threads", "", "threads", "compute threads a device"}, "threads_per_device",
                   Role::identity,
                   [](const Run& run) -> std::int64_t { return run.threads_per_device; }),
      optional_text(identity_column({"backend", "", "backend", "how the devices communicate"},
                                    "backend", [](const RunRow& row) { return row.run->backend; }),
                    "nothing to communicate, or not recorded"),
      identity_column({"precision", "", "precision", "number format"}, "precision",
                      [](const RunRow& row) { return row.run->precision; }),
      identity_column({"model", "", "model", "network"}, "model",
                      [](const RunRow& row) { return row.run->model; }),
      identity_column({"dataset", "", "data set", "data set"}, "dataset",
                      [](const RunRow& row) { return row.run->dataset_name; }),
      optional_text(
          identity_column({"data-source", "data", "source", "files or synthetic"}, "dataset_source",
                          [](const RunRow& row) { return row.run->dataset_source; }),
          "not recorded"),
      count_column({"accumulation", "accum.", "steps", "gradient accumulation steps"},
                   "accumulation_steps", Role::identity,
                   [](const Run& run) -> std::int64_t { return run.accumulation_steps; }),
      identity_column({"scaling", "scaling", "mode", "weak or strong"}, "scaling_mode",
                      [](const RunRow& row) { return row.run->scaling_mode; }),
      optional_text(identity_column(
                        {"update", "", "update", "how weights are updated: optimizer and schedule"},
                        "update", update_text),
                    "not recorded"),
      optional_text(identity_column({"options", "", "options", "options of the strategy"},
                                    "strategy_options", options_text),
                    nullptr),
      optional_text(
          identity_column({"injected", "", "injected", "planted fault (--inject)"}, "injected",
                          [](const RunRow& row) { return row.run->injected; }),
          nullptr)};
}

std::vector<Column> origin_columns() {
  return {
      optional_text(identity_column({"hosts", "", "hosts", "machines of the report"}, "hosts",
                                    [](const RunRow& row) {
                                      return fmt::format(
                                          "{}", fmt::join(row.report->environment.hosts, "+"));
                                    }),
                    "not recorded"),
      remark_column(
          identity_column({"version", "", "version", "version of ddpbench"}, "ddpbench_version",
                          [](const RunRow& row) { return row.report->generator.version; }),
          "not recorded"),
      remark_column(identity_column({"commit", "", "commit", "commit of ddpbench"}, "git_commit",
                                    [](const RunRow& row) {
                                      return row.report->generator.git_commit.value_or("");
                                    }),
                    "not built in a git checkout"),
      remark_column(
          identity_column({"started", "", "started", "when the report was begun, UTC"},
                          "started_at", [](const RunRow& row) { return row.report->started_at; }),
          "not recorded"),
      baseline_column()};
}

template <auto kMember>
Column traffic_column(const Heading& heading, const char* key, Format format) {
  return figure_column(heading, key, format, Better::neither, [](const Run& run) {
    if (!run.traffic.value) {
      return Figure::missing(run.traffic.reason.empty() ? "not recorded" : run.traffic.reason);
    }
    return Figure::of(static_cast<double>((*run.traffic.value).*kMember));
  });
}

std::vector<Column> traffic_columns() {
  constexpr Format kMegabytes{1e6, 2};
  return {
      traffic_column<&StepTraffic::messages>(
          {"messages", "messages", "a step", "what devices and servers send each other in a step"},
          "step_messages", kPlain),
      traffic_column<&StepTraffic::bytes>(
          {"wire", "on wire", "MB", "the bytes of these messages, of all together"},
          "step_wire_bytes", kMegabytes),
      traffic_column<&StepTraffic::busiest_messages>(
          {"busiest-messages", "busiest", "messages",
           "the most that one device or server sends in a step, or receives if that is more"},
          "step_busiest_messages", kPlain),
      traffic_column<&StepTraffic::busiest_bytes>(
          {"busiest-wire", "busiest", "MB", "the same in bytes"}, "step_busiest_wire_bytes",
          kMegabytes)};
}

Figure sync_batch_norm_s(const Run& run) {
  constexpr const char* kPhase = "sync_batch_norm_s";
  if (!run.phases.empty() && !run.phases.contains(kPhase)) {
    return Figure::missing("no batch norm is synchronised");
  }
  return phase_figure(run, kPhase);
}

std::vector<Column> measure_columns() {
  return {
      count_column({"steps", "", "steps", "timed steps"}, "step_count", Role::measure,
                   [](const Run& run) { return run.step.count; }),
      step_quantile<&StepStatistics::p5>({"step-p5", "step ms", "p5", "step time, 5 %"},
                                         "step_time_p5_s"),
      step_quantile<&StepStatistics::p95>({"step-p95", "step ms", "p95", "step time, 95 %"},
                                          "step_time_p95_s"),
      step_quantile<&StepStatistics::p99>({"step-p99", "step ms", "p99", "step time, 99 %"},
                                          "step_time_p99_s"),
      step_quantile<&StepStatistics::min>({"step-min", "step ms", "min", "shortest step"},
                                          "step_time_min_s"),
      step_quantile<&StepStatistics::max>({"step-max", "step ms", "max", "longest step"},
                                          "step_time_max_s"),
      phase_column({"wait", "data", "wait ms", "waiting for input in a step"}, "data_wait_s"),
      phase_column({"forward", "forward", "ms", "forward pass in a step"}, "forward_s"),
      phase_column({"backward", "backward", "ms", "backward pass in a step"}, "backward_s"),
      phase_column({"optimizer", "optim.", "ms", "update in a step"}, "optimizer_s"),
      figure_column({"sync", "batch norm", "sync ms",
                     "exchanging batch norm's statistics between devices in a step"},
                    "sync_batch_norm_s", kMilliseconds, Better::neither, sync_batch_norm_s),
      figure_column({"others-idle", "others", "idle ms",
                     "dp: wait or idleness of the devices beside the primary in a step"},
                    "others_idle_s", kMilliseconds, Better::neither, others_idle),
      busy_column(),
      least_busy_column(),
      figure_column({"flops", "GFLOP/s", "a device",
                     "operations of forward and backward a second and device"},
                    "flops_per_s_per_device", {1e9, 1}, Better::neither, flops_per_s_per_device),
      peak_share_column(),
      phase_column({"overlap", "overlap", "%", "share of communication hidden by compute"},
                   "overlap_ratio"),
      time_column<&Times::startup_s>({"startup", "startup", "s", "until the first step"},
                                     "startup_s"),
      time_column<&Times::train_s>({"train", "train", "s", "training"}, "train_s"),
      time_column<&Times::evaluate_s>({"evaluate", "eval.", "s", "evaluation"}, "evaluate_s"),
      time_column<&Times::total_s>({"total", "total", "s", "the whole run"}, "total_s"),
      to_accuracy_column(),
      count_column({"epochs", "", "epochs", "epochs that ended"}, "epochs", Role::measure,
                   [](const Run& run) { return static_cast<std::int64_t>(run.epochs.size()); }),
      count_column({"parameters", "", "parameters", "parameters of the network"}, "parameters",
                   Role::remark, [](const Run& run) { return run.parameters; })};
}

}  // namespace

std::vector<Column> further_columns() {
  std::vector<Column> columns = setting_columns();
  for (auto make : {origin_columns, measure_columns, traffic_columns}) {
    for (Column& column : make()) columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace ddpbench::report
