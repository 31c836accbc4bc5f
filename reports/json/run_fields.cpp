// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The fields of one run.
#include <array>

#include "base/error.h"
#include "reports/data/run_names.h"
#include "reports/json/field_lists.h"

namespace ddpbench::report {
namespace {

constexpr std::array<std::string_view, 6> kVerificationWords = {
    "passed", "failed", "diverged", "off", "reference", "not_applicable"};
constexpr std::array<std::string_view, 2> kScalingModes = {"weak", "strong"};

// Generous limits whose product, the largest global batch, still fits 64 bits.
constexpr int kMostDevices = 100'000, kMostAccumulationSteps = 10'000;
constexpr std::int64_t kLargestBatch = 1'000'000'000;

// The phases that every run has, in the order of the report. A strategy may add its own.
constexpr std::array<const char*, 7> kCommonPhases = {"data_wait_s",  "forward_s", "backward_s",
                                                      "optimizer_s",  "comm_s",    "comm_exposed_s",
                                                      "overlap_ratio"};

constexpr const char* kNotRecorded = "not recorded";
constexpr const char* kOneValue = "one value has no spread";

constexpr auto kStatisticsFields = [](auto& f, auto& time) { statistics_fields(f, time); };

constexpr auto kErrorFields = [](auto& f, auto& error) { error_fields(f, error); };

constexpr auto kOptimizerFields = [](auto& f, auto& run) {
  f.value("name", run.optimizer_name);
  f.values_beside("name", run.optimizer, run.optimizer_choices);
};

constexpr auto kDatasetFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  f.known_text("name", run.dataset_name, reason);
  f.known_text("source", run.dataset_source, reason);
  f.known_count("train_samples", run.train_samples, reason);
  f.known_count("test_samples", run.test_samples, reason);
  f.optional_text("note", run.dataset_note);
  f.optional("augment", run.augment);
};

constexpr auto kTimeFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  auto& time = run.time;
  f.amount_figure("startup_s", time.startup_s, reason);
  f.amount_figure("verify_s", time.verify_s, reason);
  f.amount_figure("warmup_s", time.warmup_s, reason);
  f.amount_figure("train_s", time.train_s, reason);
  f.amount_figure("evaluate_s", time.evaluate_s, reason);
  f.amount_figure("total_s", time.total_s, reason);
};

constexpr auto kEpochFields = [](auto& f, auto& epoch) {
  f.value("epoch", epoch.epoch);
  f.amount("time_s", epoch.time_s);
  f.value("samples", epoch.samples);
  f.amount("samples_per_s", epoch.samples_per_s);
  f.finite("train_loss", epoch.train_loss, kDivergedReason);
  f.finite_amount("train_accuracy", epoch.train_accuracy, kNotRecorded);
  f.amount_figure("test_accuracy", epoch.test_accuracy, "not evaluated");
};

constexpr auto kProgressFields = [](auto& f, auto& point) {
  f.value("epoch", point.epoch);
  f.value("step", point.step);
  f.amount("train_s", point.train_s);
  f.value("samples", point.samples);
  f.finite("train_loss", point.train_loss, kDivergedReason);
  f.finite_amount("train_accuracy", point.train_accuracy, kNotRecorded);
};

template <typename Fields, typename Target>
void list_accuracy_target(Fields& f, Target& wanted, const std::string& reason) {
  f.amount("target", wanted.target);
  f.amount_figure("train_s", wanted.train_s, reason);
}

constexpr auto kStepFields = [](auto& f, auto& run) {
  auto& step = run.step;
  f.value("warmup", step.warmup);
  f.optional_flag("warmup_steady", step.warmup_steady, step.warmup_reason);
  f.value("count", step.count);
  f.object_or_missing("time_s", step.time_s, kStatisticsFields,
                      is_complete(run) ? "no step was timed" : missing_reason(run));
  f.value("samples_s", step.samples_s);
};

constexpr auto kVerificationFields = [](auto& f, auto& run) {
  auto& verification = run.verification;
  f.word("status", verification.status, kVerificationWords);
  f.text_or_null("reason", verification.reason);
  std::string reason = verification.reason;
  if (reason.empty() && verification.status == "off") reason = "verification is off";
  if (reason.empty() && verification.status == "reference") reason = "this run is the reference";
  if (reason.empty()) reason = missing_reason(run);
  f.value("steps", verification.steps);
  f.amount_figure("max_relative_error", verification.max_relative_error, reason);
  f.text_or_null("worst_tensor", verification.worst_tensor);
  f.optional("worst_step", verification.worst_step);
  f.amount_figure("tolerance", verification.tolerance, reason);
  f.or_null("replicas_bit_equal", verification.replicas_bit_equal);
};

constexpr auto kScalingFields = [](auto& f, auto& scaling) {
  f.value("baseline", scaling.baseline);
  f.amount("speedup", scaling.speedup);
  f.amount("efficiency", scaling.efficiency);
};

constexpr auto kThroughputFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  f.amount_figure("samples_per_s", run.samples_per_s, reason);
  f.amount_figure("samples_per_s_per_device", run.samples_per_s_per_device, reason);
  f.optional_figure("peak_flops_per_s_per_device", run.peak_flops_per_s_per_device);
};

constexpr auto kTrafficFields = [](auto& f, auto& traffic) {
  f.value("messages", traffic.messages);
  f.value("bytes", traffic.bytes);
  f.value("busiest_messages", traffic.busiest_messages);
  f.value("busiest_bytes", traffic.busiest_bytes);
};

constexpr auto kWhyFields = [](auto& f, auto& why) {
  f.value("cause", why.cause);
  f.value("sentence", why.sentence);
  f.text_or_null("advice", why.advice);
  f.figures("parts", why.parts, kNotRecorded);
};

constexpr auto kConditionFields = [](auto& f, auto& conditions) {
  f.figure("cpu_frequency_begin_mhz", conditions.cpu_frequency_begin_mhz, kNotRecorded);
  f.figure("cpu_frequency_end_mhz", conditions.cpu_frequency_end_mhz, kNotRecorded);
  f.figure("other_load_ratio", conditions.other_load_ratio, kNotRecorded);
  f.figure("stolen_ratio", conditions.stolen_ratio, kNotRecorded);
  f.figure("quota_throttled_ratio", conditions.quota_throttled_ratio, kNotRecorded);
  f.figure("major_page_faults", conditions.major_page_faults, kNotRecorded);
  f.figure("involuntary_context_switches", conditions.involuntary_context_switches, kNotRecorded);
  f.figure("swapped_in_pages", conditions.swapped_in_pages, kNotRecorded);
  f.figure("thermal_throttle_count", conditions.thermal_throttle_count, kNotRecorded);
  f.figure("step_drift_ratio", conditions.step_drift_ratio, kNotRecorded);
  f.optional("stopped_s", conditions.stopped_s);
  f.optional("stopped_steps", conditions.stopped_steps);
  f.optional("supervisor_stopped_s", conditions.supervisor_stopped_s);
  f.value("notes", conditions.notes);
};

constexpr auto kClockFields = [](auto& f, auto& clock) {
  f.name("host", clock.host);
  f.figure("offset_s", clock.offset_s, kNotRecorded);
  f.amount_figure("bound_s", clock.bound_s, kNotRecorded);
  f.figure("drift_s", clock.drift_s, kNotRecorded);
};

constexpr auto kCallFields = [](auto& f, auto& call) {
  f.name("operation", call.operation);
  f.integer("number", call.number, std::uint64_t{1}, std::uint64_t{1} << 62);
  f.or_null("bucket", call.bucket);
  f.or_null("peer", call.peer);
  f.value("bytes", call.bytes);
};

constexpr auto kRankCallsFields = [](auto& f, auto& rank) {
  f.value("rank", rank.rank);
  f.text_or_null("host", rank.host);
  f.object_or_null("completed", rank.completed, kCallFields);
  f.object_or_null("pending", rank.pending, kCallFields);
};

// The settings of the run (data/settings.h).
constexpr auto kSettingFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  const bool alone = is_complete(run) && run.world_size == 1;
  f.name("strategy", run.strategy);
  f.integer("world_size", run.world_size, 1, kMostDevices);
  f.integer("servers", run.servers, 0, kMostDevices);
  f.value("repetition", run.repetition);
  f.optional("sequence", run.sequence);
  f.optional_text("started_at", run.started_at);
  f.value("device", run.device);
  f.known_text("device_model", run.device_model, reason);
  f.integer("threads_per_device", run.threads_per_device, 1, kMostDevices);
  f.known_text("backend", run.backend, alone ? "one device: nothing to communicate" : reason);
  f.value("precision", run.precision);
  f.value("model", run.model);
  f.optional_text("model_hash", run.model_hash);
  f.known_count("parameters", run.parameters, reason);
  f.optional("flops_per_sample", run.flops_per_sample);
  f.object("optimizer", run, kOptimizerFields);
  f.known_count("per_device_batch_size", run.per_device_batch_size, reason, 1, kLargestBatch);
  f.known_count("global_batch_size", run.global_batch_size, reason);
  f.integer("accumulation_steps", run.accumulation_steps, 1, kMostAccumulationSteps);
  f.word("scaling_mode", run.scaling_mode, kScalingModes);
  f.value("oversubscribed", run.oversubscribed);
  f.options("strategy_options", run.strategy_options);
  f.text_or_null("injected", run.injected);
  f.object("dataset", run, kDatasetFields);
};

constexpr auto kRunFields = [](auto& f, auto& run) {
  // A status without its error or reason could not be written again.
  f.status("status", run.status);
  f.optional_object("error", run.error, kErrorFields,
                    run.status == Status::failed || run.status == Status::diverged);
  f.optional_name("reason", run.reason, run.status == Status::skipped);
  kSettingFields(f, run);
  const std::string reason = missing_reason(run);
  f.object("time", run, kTimeFields);
  f.rows("epochs", run.epochs, kEpochFields);
  f.optional_rows("progress", run.progress, run.progress_reason, kProgressFields);
  f.optional_known("diverged_step", run.diverged_step);
  f.optional_text("diverged_tensor", run.diverged_tensor);
  f.optional_object("until_accuracy", run.until_accuracy,
                    [&reason](auto& g, auto& wanted) { list_accuracy_target(g, wanted, reason); });
  f.object("step", run, kStepFields);
  f.figures("phases", run.phases, reason, kCommonPhases);
  f.rows("devices", run.devices,
         [&reason](auto& g, auto& device) { device_fields(g, device, reason); });
  f.optional_known_object("traffic", run.traffic, kTrafficFields);
  f.object("verification", run, kVerificationFields);
  f.object_or_missing("scaling", run.scaling, kScalingFields, run.scaling_reason, reason);
  f.object("throughput", run, kThroughputFields);
  f.optional_object("why", run.why, kWhyFields);
  f.optional_object("conditions", run.conditions, kConditionFields);
  f.optional_rows("clocks", run.clocks, kClockFields);
  f.optional_rows("calls", run.calls, kRankCallsFields);
};

template <typename Fields, typename Statistics>
void list_statistics(Fields& f, Statistics& time) {
  f.amount("median", time.median);
  f.amount_figure("iqr", time.iqr, kOneValue);
  f.amount("p5", time.p5);
  f.amount("p95", time.p95);
  f.amount("p99", time.p99);
  f.amount("min", time.min);
  f.amount("max", time.max);
}

template <typename Fields, typename Error>
void list_error(Fields& f, Error& error) {
  f.name("kind", error.kind);
  f.or_null("rank", error.rank);
  f.text_or_null("host", error.host);
  f.or_null("signal", error.signal);
  f.or_null("step", error.step);
  f.text_or_null("phase", error.phase);
  f.text_or_null("operation", error.operation);
  f.later().or_null("bucket", error.bucket);
  f.name("message", error.message);
}

// Old reports name each backend "ring" and do not say which all-reduce a run of ddp took.
void name_backend(Run& run) {
  const bool is_old = run.backend == "ring";
  const auto servers = run.strategy_options.find("server_device");
  const bool cpu_servers = servers != run.strategy_options.end() && servers->second == "cpu";
  run.backend = backend_name_of(run.backend, run.device, cpu_servers);
  if (is_old && run.strategy == "ddp") {
    run.strategy_options.emplace("all_reduce",
                                 run.backend == "shm" && run.world_size > 16 ? "ring" : "direct");
  }
}

}  // namespace

void run_fields(FieldWriter& f, const Run& run) {
  ensure((run.status != Status::failed && run.status != Status::diverged) || run.error,
         "a {} {} run has no error", to_string(run.status), run.strategy);
  ensure(run.status != Status::skipped || !run.reason.empty(), "a skipped {} run has no reason",
         run.strategy);
  kRunFields(f, run);
}
void run_fields(FieldReader& f, Run& run) {
  kRunFields(f, run);
  name_backend(run);
}

void error_fields(FieldWriter& f, const ErrorInfo& error) { list_error(f, error); }
void error_fields(FieldReader& f, ErrorInfo& error) { list_error(f, error); }

void statistics_fields(FieldWriter& f, const StepStatistics& time) { list_statistics(f, time); }
void statistics_fields(FieldReader& f, StepStatistics& time) { list_statistics(f, time); }

}  // namespace ddpbench::report
