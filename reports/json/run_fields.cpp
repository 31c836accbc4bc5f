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
  DDPBENCH_EACH(run, f.each_known(reason), train_samples, test_samples);
  f.optional("note", run.dataset_note);
  f.optional("augment", run.augment);
};

constexpr auto kTimeFields = [](auto& f, auto& run) {
  DDPBENCH_EACH(run.time, f.each_known(missing_reason(run), kAmount), startup_s, verify_s, warmup_s,
                train_s, evaluate_s, total_s);
  f.lenient().known("load_s", run.time.load_s, kNotRecorded, kAmount);
  f.lenient().known("save_s", run.time.save_s, kNotRecorded, kAmount);
};

constexpr auto kEpochFields = [](auto& f, auto& epoch) {
  f.value("epoch", epoch.epoch);
  f.value("time_s", epoch.time_s, kAmount);
  f.value("samples", epoch.samples);
  f.value("samples_per_s", epoch.samples_per_s, kAmount);
  f.known("train_loss", epoch.train_loss, kDivergedReason);
  f.known("train_accuracy", epoch.train_accuracy, kNotRecorded, kAmount);
  f.known("test_accuracy", epoch.test_accuracy, "not evaluated", kAmount);
  f.optional("test_miou", epoch.test_miou, kAmount);
};

constexpr auto kEvaluationFields = [](auto& f, auto& evaluation) {
  f.value("samples", evaluation.samples);
  f.known("loss", evaluation.loss, kDivergedReason);
  f.known("accuracy", evaluation.accuracy, kNotRecorded, kAmount);
  f.optional("miou", evaluation.miou, kAmount);
};

constexpr auto kProgressFields = [](auto& f, auto& point) {
  DDPBENCH_EACH(point, f.values(), epoch, step);
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
  f.optional("divergence", verification.divergence, kAmount);
};

constexpr auto kScalingFields = [](auto& f, auto& scaling) {
  f.value("baseline", scaling.baseline);
  DDPBENCH_EACH(scaling, f.values(kAmount), speedup, efficiency);
};

constexpr auto kThroughputFields = [](auto& f, auto& run) {
  DDPBENCH_EACH(run, f.each_known(missing_reason(run), kAmount), samples_per_s,
                samples_per_s_per_device);
  auto& peak = run.peak_flops_per_s_per_device;
  f.optional_beside("peak_flops_per_s_per_device", peak.value, peak.reason, kAmount);
};

constexpr auto kTrafficFields = [](auto& f, auto& traffic) {
  DDPBENCH_EACH(traffic, f.values(), messages, bytes, busiest_messages, busiest_bytes);
};

constexpr auto kPushFields = [](auto& f, auto& pushes) {
  f.value("updates", pushes.updates);
  f.value("updates_per_s", pushes.updates_per_s, kAmount);
  f.value("dropped", pushes.dropped);
  DDPBENCH_EACH(pushes, f.values(kAmount), staleness_p50, staleness_p95, staleness_max);
  f.value("pushes_by_staleness", pushes.pushes_by_staleness);
};

constexpr auto kLossScalingFields = [](auto& f, auto& scaling) {
  f.value("scale", scaling.scale, kAmount);
  f.value("skipped_updates", scaling.skipped_updates);
};

constexpr auto kCheckpointFields = [](auto& f, auto& checkpoint) {
  DDPBENCH_EACH(checkpoint, f.values(), step, bytes);
  DDPBENCH_EACH(checkpoint, f.values(kAmount), held_s, write_s);
};

constexpr auto kResumedFields = [](auto& f, auto& resumed) {
  f.value("file", resumed.file, kNotEmpty);
  DDPBENCH_EACH(resumed, f.values(), step, epoch, step_of_epoch);
};

constexpr auto kWhyFields = [](auto& f, auto& why) {
  DDPBENCH_EACH(why, f.values(), cause, sentence);
  f.or_null("advice", why.advice);
  f.figures("parts", why.parts, kNotRecorded);
};

constexpr auto kConditionFields = [](auto& f, auto& conditions) {
  DDPBENCH_EACH(conditions, f.each_known(kNotRecorded), cpu_frequency_begin_mhz,
                cpu_frequency_end_mhz, other_load_ratio, stolen_ratio, quota_throttled_ratio,
                major_page_faults, involuntary_context_switches, swapped_in_pages,
                thermal_throttle_count, step_drift_ratio);
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
  DDPBENCH_EACH(call, f.each_or_null(), bucket, peer);
  f.value("bytes", call.bytes);
};

constexpr auto kRankCallsFields = [](auto& f, auto& rank) {
  f.value("rank", rank.rank);
  f.or_null("host", rank.host);
  f.or_null("completed", rank.completed, kCallFields);
  f.or_null("pending", rank.pending, kCallFields);
};

constexpr auto kBucketFields = [](auto& f, auto& bucket) {
  DDPBENCH_EACH(bucket, f.values(), bucket, bytes);
  DDPBENCH_EACH(bucket, f.values(kAmount), ready_s, start_s);
  f.known_beside("arrived_s", bucket.arrived_s, bucket.arrived_reason, kNotRecorded, kAmount);
  f.value("end_s", bucket.end_s, kAmount);
};

constexpr auto kRangeFields = [](auto& f, auto& range) {
  DDPBENCH_EACH(range, f.values(kAmount), median, min, max);
};

constexpr auto kTelemetryFields = [](auto& f, auto& telemetry) {
  f.value("samples", telemetry.samples, Between{1, INT64_MAX});
  f.value("interval_s", telemetry.interval_s, kAmount);
  DDPBENCH_EACH(telemetry, f.each_known(kUnknown, kRangeFields), utilization_ratio, sm_clock_mhz,
                memory_clock_mhz, power_w, temperature_celsius);
  f.known("clock_event_ratios", telemetry.clock_event_ratios, kUnknown, kAmount);
};

template <typename Fields, typename Device>
void list_device(Fields& f, Device& device, const std::string& reason) {
  DDPBENCH_EACH(device, f.values(), rank, process_rank);
  f.value("role", device.role, kRoles);
  DDPBENCH_EACH(device, f.values(), host, device, cores);
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
  f.optional("predicted", run.predicted);
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
  f.optional("evaluation", run.evaluation, kEvaluationFields);
  f.optional_beside("progress", run.progress, run.progress_reason, kProgressFields);
  f.optional_beside("diverged_step", run.diverged_step.value, run.diverged_step.reason);
  f.optional("diverged_tensor", run.diverged_tensor);
  f.optional("until_accuracy", run.until_accuracy, [&reason](auto& g, auto& wanted) {
    g.value("target", wanted.target, kAmount);
    g.known("train_s", wanted.train_s, reason, kAmount);
    g.optional("metric", wanted.metric);
  });
  f.value("step", run, kStepFields);
  f.figures("phases", run.phases, reason, kCommonPhases);
  f.value("devices", run.devices,
          [&reason](auto& g, auto& device) { list_device(g, device, reason); });
  f.optional_beside("traffic", run.traffic.value, run.traffic.reason, kTrafficFields);
  f.optional("pushes", run.pushes, kPushFields);
  f.optional("loss_scaling", run.loss_scaling, kLossScalingFields);
  f.optional("checkpoints", run.checkpoints, kCheckpointFields);
  f.optional("resumed", run.resumed, kResumedFields);
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
