// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/predict/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "reports/data/report_view.h"
#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/noise.h"
#include "reports/metrics/repetitions.h"
#include "reports/metrics/scaling.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {
namespace {

constexpr const char *kDdp = "ddp", *kLocalSgd = "localsgd", *kAllGather = "all_gather",
                     *kNone = "none";
// A run that waits longer for its inputs, as a share of the step, runs at its loader's pace.
constexpr double kLoaderShare = 0.05;

double number_of(const Run& run, const char* name, double otherwise) {
  return number_in<double>(option_of(run, name)).value_or(otherwise);
}

// A bucket over all workers: the last of them counts.
struct Moved {
  double bytes = 0, ready_s = 0, arrived_s = 0, end_s = 0;
};

std::map<int, Moved> moved_of(const Run& run) {
  std::map<int, Moved> all;
  for (const BucketRow& row :
       run.devices | std::views::transform(&DeviceRow::buckets) | std::views::join) {
    Moved& moved = all[row.bucket];
    moved.bytes = static_cast<double>(row.bytes);
    moved.ready_s = std::max(moved.ready_s, row.ready_s);
    moved.arrived_s = std::max(moved.arrived_s, row.arrived_s);
    moved.end_s = std::max(moved.end_s, row.end_s);
  }
  return all;
}

// The buckets of a report without any: filled in the order of backward, which makes as many bytes
// at any moment.
std::map<int, Moved> assumed_buckets(const Run& run) {
  const double whole = sizeof(float) * static_cast<double>(run.parameters);
  const double before_s =
      seconds_of(run.phases, "data_wait_s") + seconds_of(run.phases, "forward_s");
  std::map<int, Moved> all;
  double cap = kMiB * number_of(run, "first_bucket_mb", 1);
  for (double sum = 0; sum < whole; cap = kMiB * number_of(run, "bucket_cap_mb", 25)) {
    const double bytes = std::min(std::max(cap, 1.0), whole - sum);
    sum += bytes;
    const double ready_s = before_s + seconds_of(run.phases, "backward_s") * sum / whole;
    all.emplace(static_cast<int>(all.size()), Moved{bytes, ready_s, ready_s, ready_s});
  }
  return all;
}

// How many of the buckets are of gradients. The others follow them, once each: of zero's weights,
// of PowerSGD's second factors, of what servers send back.
int gradient_buckets(const Run& run, const std::map<int, Moved>& all, bool follow) {
  if (!follow || all.empty()) return static_cast<int>(all.size());
  const bool each = run.strategy == "zero2" || option_of(run, "accumulation_sync") == "every";
  const int passes = each ? run.accumulation_steps : 1;
  return passes * ceil_div(all.rbegin()->first + 1, passes + 1);
}

// What moves in a step of `run`, without its times.
Transfer transfer_of(const Run& run) {
  const std::string hook = option_of(run, "comm_hook", kNone);
  const bool of_part = hook == "int8" || hook.starts_with("topk:");
  return {.collective = run.servers > 0 ? "push"
                        : of_part       ? kAllGather
                                        : kAllReduce,
          .of_part = of_part,
          .servers = run.servers};
}

// Gradients in shards are reduced to their owners. Where an engine has no such collective (Gloo),
// and where a bucket does not divide into lines for all, an all-reduce stands in.
void reduce_to_owners(const Run& run, Transfer& transfer) {
  constexpr double kLine = 64;
  const bool divides =
      run.world_size == 1 || std::fmod(transfer.bytes, kLine * run.world_size) == 0;
  if (run.backend.ends_with("gloo") || !divides) return;
  transfer.collective = "reduce_scatter";
  transfer.tree = run.backend.ends_with("mpi");
}

void add_transfers(const Run& run, StepModel& model) {
  std::map<int, Moved> all = moved_of(run);
  if (all.empty()) all = assumed_buckets(run);
  const bool shards = strategy_row(run.strategy).gathers_weights;
  const bool communicates = run.world_size > 1 || run.servers > 0;
  const bool follow = communicates && (shards || run.servers > 0 ||
                                       option_of(run, "comm_hook").starts_with("powersgd:"));
  const int gradients = run.strategy == kLocalSgd ? 0 : gradient_buckets(run, all, follow);
  const bool overlaps = option_of(run, "overlap", "on") != "off";
  const double wait_s = seconds_of(run.phases, "data_wait_s");
  for (const auto& [bucket, moved] : all)
    if (bucket < gradients)
      model.backward_end_s = std::max(model.backward_end_s, moved.ready_s - wait_s);
  double end_s = 0;
  for (const auto& [bucket, moved] : all) {
    const bool hidden = bucket < gradients;
    Transfer next = transfer_of(run);
    next.bytes = moved.bytes;
    next.ready_s = overlaps ? moved.ready_s - wait_s : model.backward_end_s;
    if (shards && hidden) reduce_to_owners(run, next);
    if (shards && !hidden) next.collective = kAllGather;
    // The root of a tree waits for those that it still sends to.
    const double arrived_s = next.tree ? 0 : moved.arrived_s;
    const double begin_s = std::max({end_s, hidden ? next.ready_s + wait_s : 0, arrived_s});
    next.seconds = communicates ? std::max(0.0, moved.end_s - begin_s) : 0;
    end_s = std::max(end_s, moved.end_s);
    (hidden ? model.hidden : model.exposed).push_back(next);
  }
  if (communicates || !shards) return;
  model.exposed = model.hidden;  // on one device no weights were gathered
  for (Transfer& transfer : model.exposed) transfer.collective = kAllGather;
}

// Of repetitions the median, as in the table.
double step_of(const RunRow& row) {
  return median(mapped(runs_of_row(row), [](const Run* run) { return run->step.time_s->median; }));
}

StepModel model_of(const RunRow& row) {
  const Run& run = *row.run;
  StepModel model;
  const double step_s = step_of(row), wait_s = seconds_of(run.phases, "data_wait_s");
  model.ranks = run.world_size;
  model.direct = option_of(run, "all_reduce") == "direct";
  model.divides_batch = run.scaling_mode == "strong";
  if (wait_s > kLoaderShare * step_s) model.loader_s = step_s;
  for (const char* phase : {"forward_s", "loss_s", "backward_s"})
    if (run.strategy == kLocalSgd) model.backward_end_s += seconds_of(run.phases, phase);
  add_transfers(run, model);
  if (run.strategy == kLocalSgd) model.cycle = number_of(run, "sync_every", 1);
  if (strategy_row(run.strategy).gathers_weights)
    model.shared_update_s = seconds_of(run.phases, "optimizer_s");
  model.samples_s = run.step.samples_s;
  std::ranges::sort(model.samples_s);
  model.fit(step_s, wait_s);
  return model;
}

// Whether something can be predicted from this run. What zero3 gathers within passes, and what
// pipelines send between stages, is in no model.
bool is_usable(const Run& run) {
  return run.status == Status::ok && run.step.time_s && run.injected.empty() && !run.predicted &&
         !run.pushes && run.verification.status != "failed" && run.strategy != "zero3" &&
         run.strategy != "pipeline" && !strategy_row(run.strategy).through_primary;
}

// The settings that runs on other numbers of devices share.
Settings line_key(const Run& run) {
  Settings key = cell_key(run);
  for (const char* name : {"world_size", "strategy_options/all_reduce", "optimizer/lr"})
    key.erase(name);
  if (run.world_size + run.servers == 1) key.erase("backend");  // "none"
  key.erase(run.scaling_mode == "strong" ? "per_device_batch_size" : "global_batch_size");
  return key;
}

bool has_strategy(const std::vector<RunRow>& rows, std::string_view strategy, int least_devices) {
  return std::ranges::any_of(rows, [&](const RunRow& row) {
    return row.run->strategy == strategy && row.run->world_size >= least_devices;
  });
}

// Whether a run on one device, which lacks what says how several exchange, differs in nothing else.
bool has_setting(const Run& run, const Run& fit) {
  Settings mine = line_key(run);
  const Settings wanted = line_key(fit);
  for (const auto& [key, value] : wanted)
    if (!is_usual_without(key)) mine.try_emplace(key, value);
  return mine == wanted;
}

// The runs of each setting, those on the fewest devices first. Of runs on one device those of
// `single`, and if `alone` those of a strategy that has none on several.
using PredictionLine = std::vector<RunRow>;
std::vector<PredictionLine> lines_of(const std::vector<RunRow>& rows, bool alone) {
  const auto wanted = [&](const RunRow& row) {
    const Run& run = *row.run;
    if (run.world_size > 1 || run.strategy == kBaseline) return true;
    return alone && !has_strategy(rows, run.strategy, 2) &&
           option_of(run, "comm_hook", kNone) == kNone;
  };
  std::vector<PredictionLine> lines;
  for (auto& [key, line] : grouped(rows | std::views::filter(wanted),
                                   [](const RunRow& row) { return line_key(*row.run); })) {
    std::ranges::stable_sort(line, {}, [](const RunRow& row) { return row.run->world_size; });
    lines.push_back(std::move(line));
  }
  std::ranges::stable_sort(lines, {},
                           [](const auto& line) { return strategy_rank(line[0].run->strategy); });
  return lines;
}

// The peak of a worker: shards get smaller, and what a device computes stays as it is.
std::optional<double> memory_of(const Run& run, int devices) {
  std::optional<double> peak;
  double shared = 0;
  for (const DeviceRow& device : run.devices) {
    const double own = device.peak_memory().value.value_or(0);
    if (device.role == "server" || own <= peak.value_or(0)) continue;
    peak = own;
    const auto state = device.by_category_bytes.find("optimizer");
    shared = state == device.by_category_bytes.end() ? 0 : static_cast<double>(state->second);
  }
  const double times = 1.0 * devices / run.world_size;
  if (!peak || (run.scaling_mode == "strong" && devices != run.world_size)) return std::nullopt;
  if (run.strategy == "zero2")
    shared += sizeof(float) * static_cast<double>(run.parameters) / run.world_size;
  return strategy_row(run.strategy).gathers_weights ? *peak - shared * (1 - 1 / times) : *peak;
}

PredictedRow row_of(const PredictionLine& line, const std::vector<RunRow>& rows,
                    const StepModel& model, int devices, const std::optional<CommCost>& cost) {
  const Run& run = *line[0].run;
  PredictedRow row{.run = &run, .devices = devices};
  row.step_s = model.step_s(devices, cost ? &*cost : nullptr);
  const double times = model.divides_batch ? 1 : 1.0 * devices / model.ranks;
  row.samples_per_s = times * static_cast<double>(run.global_batch_size) / row.step_s;
  for (const RunRow& other : devices == 1 ? rows : line) {
    if (other.run->world_size != devices || row.measured_s) continue;
    if (devices == 1 && !has_setting(*other.run, run)) continue;
    row.measured_s = step_of(other);
    if (line[0].doubt.empty()) row.doubt = other.doubt;
  }
  const double samples =
      static_cast<double>(run.train_samples) * static_cast<double>(run.epochs.size());
  if (samples > 0) row.training_s = samples / row.samples_per_s;
  row.memory_bytes = memory_of(run, devices);
  return row;
}

// The settings of the measured run and what disturbed it, without its figures.
Run predicted_run(const PredictedRow& row) {
  Run run = *row.run;
  if (run.scaling_mode == "strong")
    run.per_device_batch_size = run.per_device_batch_size * run.world_size / row.devices;
  else
    run.global_batch_size = run.global_batch_size / run.world_size * row.devices;
  run.predicted = true;
  run.strategy = row.strategy;
  run.world_size = row.devices;
  run.repetition = 0;
  run.sequence = {};
  run.started_at.clear();
  run.time = {};
  if (row.training_s) run.time.train_s = Figure::of(*row.training_s);
  run.epochs.clear();
  run.progress.clear();
  run.progress_reason.clear();
  run.until_accuracy = {};
  run.step = {};
  run.step.time_s = summarize({row.step_s});
  run.phases.clear();
  run.devices.clear();
  run.traffic = {};
  run.loss_scaling = {};
  run.checkpoints.clear();
  run.resumed = {};
  run.verification = {.reason = kPredictedReason};
  run.samples_per_s = Figure::of(row.samples_per_s);
  run.samples_per_s_per_device = Figure::of(row.samples_per_s / row.devices);
  run.peak_flops_per_s_per_device = {};
  run.why = {};
  run.clocks.clear();
  return run;
}

std::string error_text(const PredictedRow& row, bool own_network) {
  if (!row.measured_s) return "extrapolated";
  const bool moves_nothing = row.devices + row.run->servers == 1;
  if ((own_network || moves_nothing) && row.devices == row.run->world_size) return "fit";
  return fmt::format("{:+.1f}", 100 * (row.step_s / *row.measured_s - 1));
}

std::string training_text(double seconds) {
  constexpr double kShort_s = 60;
  return seconds < kShort_s ? short_number(seconds) + " s" : duration_words(seconds);
}

// "ddp on 2 devices, ps on 2 devices and 1 server".
std::string fitted_on(std::span<const PredictedRow> rows) {
  const auto name = [](const PredictedRow& row) {
    return name_of(row.run->strategy, row.run->world_size, row.run->servers);
  };
  return joined(grouped(rows, name), ", ", [](const auto& group) { return group.first; });
}

}  // namespace

std::vector<PredictedRow> predict(const Report& report, const std::string& name,
                                  const PredictionOptions& options) {
  std::vector<RunRow> usable = all_runs(report);
  std::erase_if(usable, [](const RunRow& row) { return !is_usable(*row.run); });
  const CondensedRows condensed(usable);
  std::vector<RunRow> measured = condensed.rows();
  mark_doubts(measured);
  for (RunRow& row : measured)
    if (row.run->oversubscribed) row.doubt = crowd_words(*row.run);
  const std::vector<PredictionLine> lines = lines_of(measured, options.cost.has_value());
  // `single` is the first of the strategies.
  if (lines.empty() || (!options.cost && lines.back()[0].run->strategy == kBaseline))
    throw ConfigError(fmt::format(
        "predict: {} has no good run of {}", name,
        options.cost ? "single, ddp, zero1, zero2, ps or localsgd"
                     : "ddp, zero1, zero2, ps or localsgd on several devices; from one device, "
                       "--comm or --link must say what communication costs"));
  const RunNames names(mapped(lines, [](const PredictionLine& line) { return line[0]; }));
  const Baselines baselines(report);
  // The buckets of `single` are those of ddp.
  const bool stands_for_ddp = options.cost && !has_strategy(usable, kDdp, 1);
  std::vector<PredictedRow> rows;
  for (const PredictionLine& line : lines) {
    const Run& run = *line[0].run;
    const StepModel model = model_of(line[0]);
    const std::optional<double> single = baselines.throughput(run);
    for (const int n : options.devices) {
      const bool as_ddp = run.strategy == kBaseline && n > 1;
      if (as_ddp && !stands_for_ddp) continue;
      PredictedRow row = row_of(line, measured, model, n, options.cost);
      row.strategy = as_ddp ? kDdp : run.strategy;
      row.name = with_note(row.strategy, names.details(run));
      const std::string& doubt = line[0].doubt;
      row.speedup = !doubt.empty() ? Figure::missing(doubt)
                    : single       ? Figure::of(row.samples_per_s / *single)
                                   : Figure::missing(baselines.why_none(run));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

Report predicted_report(const Report& measured, std::span<const PredictedRow> rows) {
  Report report;
  report.generator = measured.generator;
  report.environment = measured.environment;
  report.config_json = measured.config_json;
  for (const PredictedRow& row : rows) report.runs.push_back(predicted_run(row));
  fill_scaling(report);
  return report;
}

std::string prediction_text(std::span<const PredictedRow> rows, const PredictionOptions& options,
                            int width) {
  TextTable table{{{"", "strategy", true},
                   {"", "devices"},
                   {"predicted", "step ms"},
                   {"", "samples/s"},
                   {"speed-", "up"},
                   {"measured", "step ms"},
                   {"error", "%"},
                   {"", "MiB/device", false, 1},
                   {"", "training"}}};
  if (options.price_per_h) table.columns.push_back({"", "price"});
  Footnotes notes;
  for (const PredictedRow& row : rows) {
    const double training_s = row.training_s.value_or(0);
    std::vector<std::string> cells = {
        printable(row.name),
        std::to_string(row.devices),
        fmt::format("{:.2f}", 1e3 * row.step_s),
        fmt::format("{:.0f}", row.samples_per_s),
        row.speedup.value ? fmt::format("{:.2f}", *row.speedup.value)
                          : "-" + notes.mark(row.speedup.reason),
        (row.measured_s ? fmt::format("{:.2f}", 1e3 * *row.measured_s) : "-") +
            (row.doubt.empty() ? "" : notes.mark(row.doubt)),
        error_text(row, !options.cost),
        row.memory_bytes ? fmt::format("{:.1f}", *row.memory_bytes / kMiB) : "-",
        row.training_s ? training_text(training_s) : "-"};
    if (options.price_per_h)
      cells.push_back(row.training_s ? fmt::format("{:.2f}", training_s / 3600 * row.devices *
                                                                 *options.price_per_h)
                                     : "-");
    table.add_row(std::move(cells));
  }
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  std::string text = render_rows(std::move(table), columns) + '\n';
  const auto line = [&](const std::string& words) { text += wrap(words, columns, 2); };
  for (const std::string& note : notes.lines()) line(note);
  line(fmt::format("Fitted on {}; transfers {}.", fitted_on(rows), options.cost_words));
  const Run& run = *rows.front().run;
  line(fmt::format(
      "Training: {} of {} samples{}.", counted(run.epochs.size(), "epoch"), run.train_samples,
      options.price_per_h ? fmt::format(", at {:g} an hour and device", *options.price_per_h)
                          : ""));
  return text;
}

}  // namespace ddpbench::report
