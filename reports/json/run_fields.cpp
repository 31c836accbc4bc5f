// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/fields.h"

#include <array>

#include "base/error.h"

namespace ddpbench::report {
namespace {

constexpr std::array<std::string_view, 6> kVerificationWords = {
    "passed", "failed", "diverged", "off", "reference", "not_applicable"};
constexpr std::array<std::string_view, 2> kScalingModes = {"weak", "strong"};
constexpr std::array<std::string_view, 2> kRoles = {"worker", "server"};

// Generous limits whose product, the largest global batch, still fits 64 bits.
constexpr int kMostDevices = 100'000, kMostAccumulationSteps = 10'000;
constexpr std::int64_t kLargestBatch = 1'000'000'000;

// The phases that every run has, in the order of the report. A strategy may add its own.
constexpr std::array<const char*, 7> kCommonPhases = {"data_wait_s",  "forward_s", "backward_s",
                                                      "optimizer_s",  "comm_s",    "comm_exposed_s",
                                                      "overlap_ratio"};

constexpr const char* kNotRecorded = "not recorded";

constexpr auto kOptimizerFields = [](auto& f, auto& run) {
  f.value("name", run.optimizer_name);
  f.values_beside("name", run.optimizer, run.optimizer_choices);
};

constexpr auto kDatasetFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  f.known("name", run.dataset_name, reason);
  f.known("source", run.dataset_source, reason);
  f.known("train_samples", run.train_samples, reason);
  f.known("test_samples", run.test_samples, reason);
  f.optional("note", run.dataset_note);
  f.optional("augment", run.augment);
};

constexpr auto kTimeFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  f.known("startup_s", run.time.startup_s, reason, kAmount);
  f.known("verify_s", run.time.verify_s, reason, kAmount);
  f.known("warmup_s", run.time.warmup_s, reason, kAmount);
  f.known("train_s", run.time.train_s, reason, kAmount);
  f.known("evaluate_s", run.time.evaluate_s, reason, kAmount);
  f.known("total_s", run.time.total_s, reason, kAmount);
};

constexpr auto kEpochFields = [](auto& f, auto& epoch) {
  f.value("epoch", epoch.epoch);
  f.value("time_s", epoch.time_s, kAmount);
  f.value("samples", epoch.samples);
  f.value("samples_per_s", epoch.samples_per_s, kAmount);
  f.known("train_loss", epoch.train_loss, kDivergedReason);
  f.known("train_accuracy", epoch.train_accuracy, kNotRecorded, kAmount);
  f.known("test_accuracy", epoch.test_accuracy, "not evaluated", kAmount);
};

constexpr auto kProgressFields = [](auto& f, auto& point) {
  f.value("epoch", point.epoch);
  f.value("step", point.step);
  f.value("train_s", point.train_s, kAmount);
  f.value("samples", point.samples);
  f.known("train_loss", point.train_loss, kDivergedReason);
  f.known("train_accuracy", point.train_accuracy, kNotRecorded, kAmount);
};

constexpr auto kStepFields = [](auto& f, auto& run) {
  auto& step = run.step;
  f.value("warmup", step.warmup);
  f.optional_beside("warmup_steady", step.warmup_steady, step.warmup_reason);
  f.value("count", step.count);
  f.known("time_s", step.time_s, is_complete(run) ? "no step was timed" : missing_reason(run),
          kStatisticsFields);
  f.value("samples_s", step.samples_s, kAmount);
};

constexpr auto kVerificationFields = [](auto& f, auto& run) {
  auto& verification = run.verification;
  f.value("status", verification.status, kVerificationWords);
  f.or_null("reason", verification.reason);
  std::string reason = verification.reason;
  if (reason.empty() && verification.status == "off") reason = "verification is off";
  if (reason.empty() && verification.status == "reference") reason = "this run is the reference";
  if (reason.empty()) reason = missing_reason(run);
  f.value("steps", verification.steps);
  f.known("max_relative_error", verification.max_relative_error, reason, kAmount);
  f.or_null("worst_tensor", verification.worst_tensor);
  f.optional("worst_step", verification.worst_step);
  f.known("tolerance", verification.tolerance, reason, kAmount);
  f.or_null("replicas_bit_equal", verification.replicas_bit_equal);
};

constexpr auto kScalingFields = [](auto& f, auto& scaling) {
  f.value("baseline", scaling.baseline);
  f.value("speedup", scaling.speedup, kAmount);
  f.value("efficiency", scaling.efficiency, kAmount);
};

constexpr auto kThroughputFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  f.known("samples_per_s", run.samples_per_s, reason, kAmount);
  f.known("samples_per_s_per_device", run.samples_per_s_per_device, reason, kAmount);
  auto& peak = run.peak_flops_per_s_per_device;
  f.optional_beside("peak_flops_per_s_per_device", peak.value, peak.reason, kAmount);
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
  f.or_null("advice", why.advice);
  f.figures("parts", why.parts, kNotRecorded);
};

constexpr auto kConditionFields = [](auto& f, auto& conditions) {
  f.known("cpu_frequency_begin_mhz", conditions.cpu_frequency_begin_mhz, kNotRecorded);
  f.known("cpu_frequency_end_mhz", conditions.cpu_frequency_end_mhz, kNotRecorded);
  f.known("other_load_ratio", conditions.other_load_ratio, kNotRecorded);
  f.known("stolen_ratio", conditions.stolen_ratio, kNotRecorded);
  f.known("quota_throttled_ratio", conditions.quota_throttled_ratio, kNotRecorded);
  f.known("major_page_faults", conditions.major_page_faults, kNotRecorded);
  f.known("involuntary_context_switches", conditions.involuntary_context_switches, kNotRecorded);
  f.known("swapped_in_pages", conditions.swapped_in_pages, kNotRecorded);
  f.known("thermal_throttle_count", conditions.thermal_throttle_count, kNotRecorded);
  f.known("step_drift_ratio", conditions.step_drift_ratio, kNotRecorded);
  f.value("notes", conditions.notes);
};

constexpr auto kClockFields = [](auto& f, auto& clock) {
  f.value("host", clock.host, kNotEmpty);
  f.known("offset_s", clock.offset_s, kNotRecorded);
  f.known("bound_s", clock.bound_s, kNotRecorded, kAmount);
  f.known("drift_s", clock.drift_s, kNotRecorded);
};

constexpr auto kCallFields = [](auto& f, auto& call) {
  f.value("operation", call.operation, kNotEmpty);
  f.value("number", call.number, Between{1, INT64_MAX});
  f.or_null("bucket", call.bucket);
  f.or_null("peer", call.peer);
  f.value("bytes", call.bytes);
};

constexpr auto kRankCallsFields = [](auto& f, auto& rank) {
  f.value("rank", rank.rank);
  f.or_null("host", rank.host);
  f.or_null("completed", rank.completed, kCallFields);
  f.or_null("pending", rank.pending, kCallFields);
};

constexpr auto kBucketFields = [](auto& f, auto& bucket) {
  f.value("bucket", bucket.bucket);
  f.value("bytes", bucket.bytes);
  f.value("ready_s", bucket.ready_s, kAmount);
  f.value("start_s", bucket.start_s, kAmount);
  f.known_beside("arrived_s", bucket.arrived_s, bucket.arrived_reason, kNotRecorded, kAmount);
  f.value("end_s", bucket.end_s, kAmount);
};

constexpr auto kRangeFields = [](auto& f, auto& range) {
  f.value("median", range.median, kAmount);
  f.value("min", range.min, kAmount);
  f.value("max", range.max, kAmount);
};

constexpr auto kTelemetryFields = [](auto& f, auto& telemetry) {
  f.value("samples", telemetry.samples, Between{1, INT64_MAX});
  f.value("interval_s", telemetry.interval_s, kAmount);
  f.known("utilization_ratio", telemetry.utilization_ratio, kUnknown, kRangeFields);
  f.known("sm_clock_mhz", telemetry.sm_clock_mhz, kUnknown, kRangeFields);
  f.known("memory_clock_mhz", telemetry.memory_clock_mhz, kUnknown, kRangeFields);
  f.known("power_w", telemetry.power_w, kUnknown, kRangeFields);
  f.known("temperature_celsius", telemetry.temperature_celsius, kUnknown, kRangeFields);
  f.known("clock_event_ratios", telemetry.clock_event_ratios, kUnknown, kAmount);
};

template <typename Fields, typename Device>
void list_device(Fields& f, Device& device, const std::string& reason) {
  f.value("rank", device.rank);
  f.value("process_rank", device.process_rank);
  f.value("role", device.role, kRoles);
  f.value("host", device.host);
  f.value("device", device.device);
  f.value("cores", device.cores);
  f.known("step_time_median_s", device.step_time_median_s,
          device.role == "server" ? "a server takes no steps of its own" : reason, kAmount);
  f.value("memory", device, [&reason](auto& memory, auto& row) {
    memory.known_beside("peak_bytes", row.peak_bytes, row.peak_reason, reason);
    memory.value("by_category_bytes", row.by_category_bytes);
    memory.known("process_peak_rss_bytes", row.process_peak_rss_bytes, reason, kAmount);
    memory.lenient().known("driver_bytes", row.driver_bytes, kUnknown);
  });
  f.lenient().figures("phases", device.phases, reason);
  f.value("buckets", device.buckets, kBucketFields);
  f.lenient().known("gpu_telemetry", device.gpu_telemetry, kNotRecorded, kTelemetryFields);
}

// The settings of the run (data/settings.h).
constexpr auto kSettingFields = [](auto& f, auto& run) {
  const std::string reason = missing_reason(run);
  const bool alone = is_complete(run) && run.world_size == 1;
  f.value("strategy", run.strategy, kNotEmpty);
  f.optional("label", run.label);
  f.value("world_size", run.world_size, Between{1, kMostDevices});
  f.value("servers", run.servers, Between{0, kMostDevices});
  f.value("repetition", run.repetition);
  f.optional("sequence", run.sequence);
  f.optional("started_at", run.started_at);
  f.value("device", run.device);
  f.known("device_model", run.device_model, reason);
  f.value("threads_per_device", run.threads_per_device, Between{1, kMostDevices});
  f.known("backend", run.backend, alone ? "one device: nothing to communicate" : reason);
  f.value("precision", run.precision);
  f.value("model", run.model);
  f.optional("model_hash", run.model_hash);
  f.known("parameters", run.parameters, reason);
  f.optional("flops_per_sample", run.flops_per_sample);
  f.value("optimizer", run, kOptimizerFields);
  f.known("per_device_batch_size", run.per_device_batch_size, reason, Between{1, kLargestBatch});
  f.known("global_batch_size", run.global_batch_size, reason);
  f.value("accumulation_steps", run.accumulation_steps, Between{1, kMostAccumulationSteps});
  f.value("scaling_mode", run.scaling_mode, kScalingModes);
  f.value("oversubscribed", run.oversubscribed);
  f.value("strategy_options", run.strategy_options, kOption);
  f.or_null("injected", run.injected);
  f.value("dataset", run, kDatasetFields);
};

constexpr auto kRunFields = [](auto& f, auto& run) {
  f.value("status", run.status);
  // A status without its error or reason could not be written again.
  if (run.status == Status::failed || run.status == Status::diverged) {
    f.value("error", run.error, kErrorFields);
  } else {
    f.optional("error", run.error, kErrorFields);
  }
  if (run.status == Status::skipped) {
    f.value("reason", run.reason, kNotEmpty);
  } else {
    f.optional("reason", run.reason, kNotEmpty);
  }
  kSettingFields(f, run);
  const std::string reason = missing_reason(run);
  f.value("time", run, kTimeFields);
  f.value("epochs", run.epochs, kEpochFields);
  f.optional_beside("progress", run.progress, run.progress_reason, kProgressFields);
  f.optional_beside("diverged_step", run.diverged_step.value, run.diverged_step.reason);
  f.optional("diverged_tensor", run.diverged_tensor);
  f.optional("until_accuracy", run.until_accuracy, [&reason](auto& g, auto& wanted) {
    g.value("target", wanted.target, kAmount);
    g.known("train_s", wanted.train_s, reason, kAmount);
  });
  f.value("step", run, kStepFields);
  f.figures("phases", run.phases, reason, kCommonPhases);
  f.value("devices", run.devices,
          [&reason](auto& g, auto& device) { list_device(g, device, reason); });
  f.optional_beside("traffic", run.traffic.value, run.traffic.reason, kTrafficFields);
  f.value("verification", run, kVerificationFields);
  f.known_beside("scaling", run.scaling, run.scaling_reason, reason, kScalingFields);
  f.value("throughput", run, kThroughputFields);
  f.optional("why", run.why, kWhyFields);
  f.optional("conditions", run.conditions, kConditionFields);
  f.optional("clocks", run.clocks, kClockFields);
  f.optional("calls", run.calls, kRankCallsFields);
};

}  // namespace

void run_fields(Fields<false>& f, const Run& run) {
  ensure((run.status != Status::failed && run.status != Status::diverged) || run.error,
         "a {} {} run has no error", to_string(run.status), run.strategy);
  ensure(run.status != Status::skipped || !run.reason.empty(), "a skipped {} run has no reason",
         run.strategy);
  kRunFields(f, run);
}

void run_fields(Fields<true>& f, Run& run) {
  kRunFields(f, run);
  for (DeviceRow& device : run.devices) {
    for (BucketRow& bucket : device.buckets) {
      if (!bucket.arrived_reason.empty()) bucket.arrived_s = bucket.start_s;
    }
  }
}

}  // namespace ddpbench::report
