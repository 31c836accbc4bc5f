// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The columns: which run it is, what it measured, and what repetitions show together. One row makes
// both the cell of the table and the field of the exports, so that they cannot differ.
#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"
#include "reports/table/columns.h"

namespace ddpbench::report {
namespace {

constexpr const char* kUnrecorded = "not recorded";
constexpr const char* kOneRepetition = "one repetition: the noise is unknown";

constexpr Format kPlain{1, 0}, kHundredths{1, 2}, kMilliseconds{1e-3, 2}, kPercentage{0.01, 1},
    kMebibytes{kMiB, 1}, kMegabytes{1e6, 2}, kBillions{1e9, 1}, kFraction{1, 4},
    kFinePercentage{0.01, 2};

FieldValue said(const Figure& figure, const Run& run) {
  return figure.value ? FieldValue{*figure.value} : FieldValue{{}, missing_reason(figure, run)};
}

FieldValue said(const std::string& text, const Run& run) {
  return text.empty() ? FieldValue{{}, missing_reason(run)} : FieldValue{text};
}

FieldValue said(bool flag, const Run&) { return {flag}; }

FieldValue said(std::integral auto count, const Run&) { return {static_cast<std::int64_t>(count)}; }

template <auto kMember>
FieldValue of(const RunRow& row) {
  return said(row.run->*kMember, *row.run);
}

template <Figure (*kGet)(const Run&)>
FieldValue figure(const RunRow& row) {
  return said(kGet(*row.run), *row.run);
}

template <Known<SampleRange> GpuTelemetry::*kMember>
Figure gpu(const Run& run) {
  const Known<SampleRange> range = gpu_figure(run, kMember);
  return range.value ? Figure::of(range.value->median) : Figure::missing(range.reason);
}

template <double StepStatistics::*kMember>
Figure step(const Run& run) {
  return step_figure(run, kMember);
}

Figure step_iqr(const Run& run) {
  return run.step.time_s ? run.step.time_s->iqr : step_figure(run, &StepStatistics::median);
}

template <double Scaling::*kMember>
Figure scaling(const Run& run) {
  return run.scaling ? Figure::of((*run.scaling).*kMember) : Figure::missing(run.scaling_reason);
}

template <auto kMember>
Figure traffic(const Run& run) {
  if (run.traffic.value) return Figure::of(static_cast<double>((*run.traffic.value).*kMember));
  return Figure::missing(run.traffic.reason.empty() ? kUnrecorded : run.traffic.reason);
}

template <auto kMember>
Figure pushes(const Run& run) {
  return run.pushes ? Figure::of(static_cast<double>((*run.pushes).*kMember))
                    : Figure::missing("no server serves its workers one by one");
}

template <FieldValue (*kValue)(const RunRow&)>
FieldValue undoubted(const RunRow& row) {
  return row.doubt.empty() ? kValue(row) : FieldValue{{}, row.doubt};
}

template <auto kMember>
Figure loss_scaling(const Run& run) {
  return run.loss_scaling ? Figure::of(static_cast<double>((*run.loss_scaling).*kMember))
                          : Figure::missing("the loss is not scaled");
}

// "overlap=on,bucket_cap_mb=25".
FieldValue options(const RunRow& row) {
  return {joined(row.run->strategy_options, ",",
                 [](const auto& option) { return option.first + "=" + option.second; })};
}

// "adam,lr=0.001,lr_schedule=cosine": name, numbers and choices of the optimizer.
FieldValue update(const RunRow& row) {
  const Run& run = *row.run;
  std::string text = run.optimizer_name;
  if (text.empty() || text == "unknown") return {{}, kUnrecorded};  // of an import
  for (const auto& [name, value] : run.optimizer) text += fmt::format(",{}={}", name, value);
  for (const auto& [name, value] : run.optimizer_choices)
    text += fmt::format(",{}={}", name, value);
  return {text};
}

FieldValue hosts(const RunRow& row) {
  return said(joined(row.report->environment.hosts, "+"), *row.run);
}

FieldValue commit(const RunRow& row) {
  return said(row.report->generator.git_commit.value_or(""), *row.run);
}

FieldValue repetition(const RunRow& row) {
  if (row.repeated == nullptr) return {std::int64_t{row.run->repetition}};
  return {{}, "the row stands for all repetitions"};
}

FieldValue repetitions(const RunRow& row) {
  return said(row.repeated == nullptr ? 1 : row.repeated->runs.size(), *row.run);
}

FieldValue timed_repetitions(const RunRow& row) {
  const Run& run = *row.run;
  if (row.repeated != nullptr) return said(row.repeated->timed.size(), run);
  return said(run.status == Status::ok && run.step.time_s ? 1 : 0, run);
}

template <MedianSpread RepeatedRuns::*kSpread, Figure MedianSpread::*kEnd>
FieldValue end(const RunRow& row) {
  if (row.repeated == nullptr) return {{}, kOneRepetition};
  return said((*row.repeated).*kSpread.*kEnd, *row.run);
}

FieldValue to_accuracy(const RunRow& row) {
  const bool repeated = row.repeated != nullptr;
  return said(repeated ? row.repeated->time_to_accuracy : time_to_accuracy(*row.run), *row.run);
}

FieldValue divergence(const RunRow& row) {
  const auto& apart = verification_of(row).divergence;
  return apart ? FieldValue{*apart} : FieldValue{{}, "the run is exact, or was not compared"};
}

Figure phase(const Run& run, const std::string& key) {
  const bool lacking = key == "sync_batch_norm_s" && !run.phases.empty();
  if (lacking && !run.phases.contains(key)) return Figure::missing("no batch norm is synchronised");
  return phase_of(run.phases, key);
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
    shares.push_back(share.value ? fmt::format("{:.0f}", 100 * *share.value) : "-");
  }
  if (!knows_busy_shares(run)) return {{}, missing_reason(first, run)};
  return {joined(shares, "/")};
}

FieldValue value_of(const Field& field, const RunRow& row) {
  return field.get != nullptr ? field.get(row) : said(phase(*row.run, field.key), *row.run);
}

// The value of a row; of repetitions that of all together.
FieldValue over_repetitions(const Field& field, const RunRow& row) {
  const bool own = row.repeated == nullptr || field.is(kIdentity | kRemark | kByGetter);
  std::vector<double> values;
  for (const Run* run : own ? std::vector<const Run*>() : row.repeated->timed) {
    RunRow one = row;
    one.run = run;
    one.repeated = nullptr;
    FieldValue value = value_of(field, one);
    const auto* number = std::get_if<double>(&value.value);
    if (number == nullptr && field.is(kAll)) return value;
    if (number != nullptr) values.push_back(*number);
  }
  if (values.empty()) return value_of(field, row);
  if (field.is(kLargest)) return {std::ranges::max(values)};
  return {field.is(kRate) ? median_rate(std::move(values)) : median(std::move(values))};
}

// ---- the table ----

constexpr unsigned kText = kLeft | kIdentity;

// Further fields of columns, by the column's name.
const std::pair<std::string_view, Field> kFurther[] = {
    {"devices", {"servers", of<&Run::servers>, kIdentity}},
    {"devices", {"oversubscribed", of<&Run::oversubscribed>, kRemark}},
    {"devices", {"predicted", of<&Run::predicted>, kRemark}},
    {"batch", {"global_batch_size", of<&Run::global_batch_size>, kIdentity}},
    {"verified",
     {"verification_max_relative_error",
      [](const RunRow& row) { return said(verification_of(row).max_relative_error, *row.run); },
      kByGetter}},
    {"verified", {"verification_divergence", divergence, kByGetter}},
    {"to-accuracy",
     {"until_accuracy",
      [](const RunRow& row) {
        const auto& wanted = row.run->until_accuracy;
        return wanted ? FieldValue{wanted->target} : FieldValue{{}, "no --until-accuracy"};
      },
      kRemark}},
    {"repetitions", {"timed_repetitions", timed_repetitions, kRemark}},
    {"step-interval",
     {"step_time_high_s", end<&RepeatedRuns::step_s, &MedianSpread::high>, kRemark}},
    {"speedup-interval",
     {"speedup_high", undoubted<end<&RepeatedRuns::speedup, &MedianSpread::high>>, kRemark}}};

// A column of the first field `key` and the further ones.
Column column(const char* name, const char* heading, const char* about, const char* key,
              FieldValue (*get)(const RunRow&) = nullptr, unsigned traits = 0,
              Format format = kMilliseconds, const char* absent = nullptr) {
  Column made{name, heading, about, {{key, get, traits, absent}}, format};
  for (const auto& [of, field] : kFurther) {
    if (made.name == of) made.fields.push_back(field);
  }
  return made;
}

}  // namespace

FieldValue Field::value(const RunRow& row) const {
  FieldValue found = over_repetitions(*this, row);
  if (found.value.index() == 0 && absent != nullptr) {
    if (*absent == '\0') return {std::string()};
    found.reason = absent;
  }
  const auto* number = std::get_if<double>(&found.value);
  if (number != nullptr && is_bytes()) found.value = static_cast<std::int64_t>(*number);
  return found;
}

const std::vector<Column>& run_columns() {
  static const std::vector<Column> kColumns = {
      column("strategy", "strategy", "single, dp, ddp, ps", "strategy", of<&Run::strategy>, kText),
      column("devices", "devices", "replicas, +parameter servers", "world_size",
             of<&Run::world_size>, kIdentity),
      column(
          "report", "report", "file that the run is from", "report",
          [](const RunRow& row) { return said(row.file, *row.run); }, kText, kPlain,
          "not from a file"),
      column("repetition", "rep.", "number of the repetition, from 1 (key: from 0)", "repetition",
             repetition, kIdentity),
      column("repetitions", "reps", "repetitions of the setting", "repetitions", repetitions,
             kRemark),
      column(
          "status", "status", "ok, diverged, failed, skipped, interrupted", "status",
          [](const RunRow& row) { return FieldValue{std::string(to_string(row.run->status))}; },
          kLeft | kRemark),
      column("device", "device", "kind of device", "device", of<&Run::device>, kText),
      column("device-model", "device model", "model of the device", "device_model",
             of<&Run::device_model>, kText, kPlain, kUnrecorded),
      column("backend", "backend", "how the devices communicate", "backend", of<&Run::backend>,
             kText, kPlain, "nothing to communicate, or not recorded"),
      column("precision", "precision", "number format", "precision", of<&Run::precision>, kText),
      column("model", "model", "network", "model", of<&Run::model>, kText),
      column("dataset", "data set", "data set", "dataset", of<&Run::dataset_name>, kText),
      column("data-source", "data source", "files or synthetic", "dataset_source",
             of<&Run::dataset_source>, kText, kPlain, kUnrecorded),
      column("scaling", "scaling", "weak or strong", "scaling_mode", of<&Run::scaling_mode>, kText),
      column("update", "update", "how weights are updated: optimizer and schedule", "update",
             update, kText),
      column("options", "options", "options of the strategy", "strategy_options", options, kText),
      column("injected", "injected", "planted fault (--inject)", "injected", of<&Run::injected>,
             kText, kPlain, ""),
      column("hosts", "hosts", "machines of the report", "hosts", hosts, kText, kPlain,
             kUnrecorded),
      column("commit", "commit", "commit of ddpbench", "git_commit", commit, kLeft | kRemark,
             kPlain, "not built in a git checkout"),
      column("threads", "threads", "compute threads a device", "threads_per_device",
             of<&Run::threads_per_device>, kIdentity),
      column("accumulation", "accum. steps", "gradient accumulation steps", "accumulation_steps",
             of<&Run::accumulation_steps>, kIdentity),
      column("batch", "batch each/all", "batch per device and of a step", "per_device_batch_size",
             of<&Run::per_device_batch_size>, kIdentity | kUsual),
      column("step", "step ms", "step time of the slowest rank, the median", "step_time_median_s",
             figure<step<&StepStatistics::median>>, kUsual | kSmaller),
      column("step-iqr", "IQR", "interquartile range of the step times", "step_time_iqr_s",
             figure<step_iqr>, kUsual),
      column("step-interval", "(a..b)", "how far the step time reaches over repetitions",
             "step_time_low_s", end<&RepeatedRuns::step_s, &MedianSpread::low>, kRemark | kUsual),
      column("rate", "samples/s", "samples a second", "samples_per_s", of<&Run::samples_per_s>,
             kUsual | kBigger | kRate, kPlain),
      column("speedup", "speed-up", "throughput against single's", "speedup",
             undoubted<figure<scaling<&Scaling::speedup>>>, kUsual | kRate, kHundredths),
      column("speedup-interval", "(a..b)", "how far the speed-up reaches over repetitions",
             "speedup_low", undoubted<end<&RepeatedRuns::speedup, &MedianSpread::low>>,
             kRemark | kUsual, kHundredths),
      column("efficiency", "eff. %", "speed-up / devices", "efficiency",
             undoubted<figure<scaling<&Scaling::efficiency>>>, kUsual | kBigger | kRate,
             kPercentage),
      column("epoch", "epoch s", "time of an epoch, the median over epochs; without evaluation",
             "epoch_time_s", figure<epoch_time>, kUsual, kHundredths),
      column("to-accuracy", "to acc. s", "training time until --until-accuracy was reached",
             "time_to_accuracy_s", to_accuracy, kUsual | kSmaller | kByGetter, kHundredths),
      column("skipped", "skipped updates", "fp16: updates left out, as gradients overflowed",
             "skipped_updates", figure<loss_scaling<&LossScaling::skipped_updates>>, kUsual,
             kPlain),
      column("comm", "comm ms", "communication in a step", "comm_s", nullptr, kUsual),
      column("exposed", "exposed", "communication not hidden by compute, in ms", "comm_exposed_s",
             nullptr, kUsual),
      column("sync", "batch norm sync ms",
             "exchanging batch norm's statistics between devices in a step", "sync_batch_norm_s",
             nullptr, kUsual),
      column("others-idle", "others idle ms",
             "dp: wait or idleness of the devices beside the primary in a step", "others_idle_s",
             figure<others_idle>, kUsual),
      column("updates", "updates a s", "ps, async or with backups: updates a second",
             "updates_per_s", figure<pushes<&PushSection::updates_per_s>>, kUsual, kPlain),
      column("staleness", "stale median",
             "ps, async: updates by others that the weights of a gradient lacked; for N workers "
             "that may be K steps ahead, at most (N - 1)(2K + 1)",
             "staleness_p50", figure<pushes<&PushSection::staleness_p50>>, kUsual, kPlain),
      column("memory", "MiB/device", "peak memory of the fullest device (key: of device 0)",
             "primary_peak_bytes", figure<primary_memory>, kUsual | kSmaller | kLargest,
             kMebibytes),
      column("other-memory", "MiB others", "largest peak memory of the workers but the first",
             "others_peak_bytes", figure<other_memory>, kUsual | kSmaller | kLargest, kMebibytes),
      column("gpu-use", "GPU use %", "share of the time in which a kernel ran on a GPU",
             "gpu_utilization_ratio", figure<gpu<&GpuTelemetry::utilization_ratio>>, kUsual,
             kPercentage),
      column("power", "GPU W", "power of a GPU", "gpu_power_w", figure<gpu<&GpuTelemetry::power_w>>,
             kUsual, kPlain),
      column("clock", "GPU MHz", "clock of a GPU's multiprocessors", "gpu_sm_clock_mhz",
             figure<gpu<&GpuTelemetry::sm_clock_mhz>>, kUsual, kPlain),
      column("loss", "train loss", "training loss of the last epoch", "train_loss",
             figure<final_loss>, kUsual | kAll, kFraction),
      column("accuracy", "test acc. %", "test accuracy after the last epoch", "test_accuracy",
             figure<final_accuracy>, kUsual, kFinePercentage),
      column("miou", "test mIoU %",
             "mean intersection over union of the classes after the last epoch", "test_miou",
             figure<final_miou>, kUsual, kFinePercentage),
      column(
          "verified", "verified", "whether it computed what the reference did",
          "verification_status",
          [](const RunRow& row) { return said(verification_of(row).status, *row.run); },
          kRemark | kUsual),
      column("steps", "steps", "timed steps", "step_count",
             [](const RunRow& row) { return said(row.run->step.count, *row.run); }),
      column("step-p95", "step ms p95", "step time, 95 %", "step_time_p95_s",
             figure<step<&StepStatistics::p95>>),
      column("wait", "data wait ms", "waiting for input in a step", "data_wait_s"),
      column("forward", "forward ms", "forward pass in a step", "forward_s"),
      column("backward", "backward ms", "backward pass in a step", "backward_s"),
      column("optimizer", "optim. ms", "update in a step", "optimizer_s"),
      column("busy", "busy % a device", "share of the step in which each device computes, by rank",
             "busy_percent_by_rank", busy_shares, kRemark),
      column("flops", "GFLOP/s a device", "operations of forward and backward a second and device",
             "flops_per_s_per_device", figure<flops_per_s_per_device>, kRate, kBillions),
      column(
          "peak-share", "share of peak %",
          "the same as a share of the peak that was measured on the devices in the run's precision",
          "peak_flops_ratio", figure<peak_share>, kRate, kPercentage),
      column("overlap", "overlap %", "share of communication hidden by compute", "overlap_ratio",
             nullptr, 0, kPercentage),
      column(
          "total", "total s", "the whole run", "total_s",
          [](const RunRow& row) { return said(row.run->time.total_s, *row.run); }, 0, kHundredths),
      column("messages", "messages a step", "what devices and servers send each other in a step",
             "step_messages", figure<traffic<&StepTraffic::messages>>, 0, kPlain),
      column("wire", "on wire MB", "the bytes of these messages, of all together",
             "step_wire_bytes", figure<traffic<&StepTraffic::bytes>>, 0, kMegabytes),
      column("busiest-messages", "busiest messages",
             "the most that one device or server sends in a step, or receives if that is more",
             "step_busiest_messages", figure<traffic<&StepTraffic::busiest_messages>>, 0, kPlain),
      column("busiest-wire", "busiest MB", "the same in bytes", "step_busiest_wire_bytes",
             figure<traffic<&StepTraffic::busiest_bytes>>, 0, kMegabytes)};
  return kColumns;
}

}  // namespace ddpbench::report
