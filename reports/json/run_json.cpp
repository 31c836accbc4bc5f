// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One run as JSON, in the order of schema/report-1.schema.json.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "reports/data/missing_reason.h"
#include "reports/json/gpu_json.h"
#include "reports/json/json_fields.h"

namespace ddpbench::report {
namespace {

// "on" and "25" are what the user types; in JSON booleans are booleans and numbers numbers.
Json option_json(const std::string& text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_number() && value.dump() == text) return value;
  return text;
}

Json options_json(const std::map<std::string, std::string>& options) {
  Json json = Json::object();
  for (const auto& [name, text] : options) json[name] = option_json(text);
  return json;
}

Json optimizer_json(const Run& run) {
  Json json = {{"name", run.optimizer_name}};
  for (const auto& [name, value] : run.optimizer) json[name] = value;
  return json;
}

Json dataset_json(const Run& run) {
  const std::string reason = missing_reason(run);
  Json json;
  put_text(json, "name", run.dataset_name, reason);
  put_text(json, "source", run.dataset_source, reason);
  put_count(json, "train_samples", run.train_samples, reason);
  put_count(json, "test_samples", run.test_samples, reason);
  return json;
}

Json time_json(const Run& run) {
  const std::string reason = missing_reason(run);
  Json json;
  put_figure(json, "startup_s", run.time.startup_s, reason);
  put_figure(json, "verify_s", run.time.verify_s, reason);
  put_figure(json, "warmup_s", run.time.warmup_s, reason);
  put_figure(json, "train_s", run.time.train_s, reason);
  put_figure(json, "evaluate_s", run.time.evaluate_s, reason);
  put_figure(json, "total_s", run.time.total_s, reason);
  return json;
}

Json epoch_json(const EpochRow& epoch) {
  Json json = {{"epoch", epoch.epoch},
               {"time_s", epoch.time_s},
               {"samples", epoch.samples},
               {"samples_per_s", epoch.samples_per_s}};
  // Training that diverges is an outcome to report, not a mistake of the program.
  if (std::isfinite(epoch.train_loss)) {
    json["train_loss"] = epoch.train_loss;
  } else {
    put_missing(json, "train_loss", kDivergedReason);
  }
  json["train_accuracy"] = epoch.train_accuracy;
  put_figure(json, "test_accuracy", epoch.test_accuracy, "not evaluated");
  return json;
}

Json step_json(const Run& run) {
  const StepSection& step = run.step;
  Json json = {{"warmup", step.warmup}};
  if (step.warmup_steady) {
    json["warmup_steady"] = *step.warmup_steady;
  } else if (!step.warmup_reason.empty()) {
    put_missing(json, "warmup_steady", step.warmup_reason);
  }
  json["count"] = step.count;
  if (step.time_s) {
    const StepStatistics& s = *step.time_s;
    json["time_s"] = {{"median", s.median}, {"iqr", s.iqr}, {"p5", s.p5},  {"p95", s.p95},
                      {"p99", s.p99},       {"min", s.min}, {"max", s.max}};
  } else {
    put_missing(json, "time_s",
                run.status == Status::ok ? "no step was timed" : missing_reason(run));
  }
  json["samples_s"] = step.samples_s;
  return json;
}

Json conditions_json(const Conditions& conditions) {
  Json json;
  const char* reason = "not recorded";
  for (const auto& [key, figure] : kConditionFigures) {
    put_figure(json, key, conditions.*figure, reason);
  }
  json["notes"] = conditions.notes;
  return json;
}

Json phases_json(const Run& run) {
  const std::string reason = missing_reason(run);
  Json json = Json::object();
  for (const char* name : kCommonPhases) {
    const auto found = run.phases.find(name);
    put_figure(json, name, found == run.phases.end() ? Figure{} : found->second, reason);
  }
  for (const auto& [name, figure] : run.phases) {
    if (!json.contains(name)) put_figure(json, name, figure, reason);
  }
  return json;
}

Json bucket_json(const BucketRow& bucket) {
  return {{"bucket", bucket.bucket},   {"bytes", bucket.bytes},         {"ready_s", bucket.ready_s},
          {"start_s", bucket.start_s}, {"arrived_s", bucket.arrived_s}, {"end_s", bucket.end_s}};
}

Json device_json(const DeviceRow& device, const std::string& reason) {
  Json json = {{"rank", device.rank},     {"process_rank", device.process_rank},
               {"role", device.role},     {"host", device.host},
               {"device", device.device}, {"cores", device.cores}};
  put_figure(json, "step_time_median_s", device.step_time_median_s,
             device.role == "server" ? "a server takes no steps of its own" : reason);
  Json memory;
  put_figure(memory, "peak_bytes", device.peak_memory(), reason);
  memory["by_category_bytes"] = Json::object();
  for (const auto& [category, bytes] : device.by_category_bytes) {
    memory["by_category_bytes"][category] = bytes;
  }
  put_figure(memory, "process_peak_rss_bytes", device.process_peak_rss_bytes, reason);
  put_driver_bytes(memory, device.driver_bytes);
  json["memory"] = std::move(memory);
  json["phases"] = Json::object();
  for (const auto& [name, figure] : device.phases) put_figure(json["phases"], name, figure, reason);
  json["buckets"] = Json::array();
  for (const BucketRow& bucket : device.buckets) json["buckets"].push_back(bucket_json(bucket));
  put_telemetry(json, device.gpu_telemetry);
  return json;
}

Json verification_json(const Run& run) {
  const Verification& verification = run.verification;
  std::string reason = verification.reason;
  if (reason.empty() && verification.status == "off") reason = "verification is off";
  if (reason.empty() && verification.status == "reference") reason = "this run is the reference";
  if (reason.empty()) reason = missing_reason(run);
  Json json = {{"status", verification.status},
               {"reason", or_null(verification.reason)},
               {"steps", verification.steps}};
  put_figure(json, "max_relative_error", verification.max_relative_error, reason);
  json["worst_tensor"] = or_null(verification.worst_tensor);
  put_figure(json, "tolerance", verification.tolerance, reason);
  json["replicas_bit_equal"] = or_null(verification.replicas_bit_equal);
  return json;
}

void put_status(Json& json, const Run& run) {
  json["status"] = to_string(run.status);
  ensure(run.status != Status::failed || run.error, "a failed {} run has no error", run.strategy);
  ensure(run.status != Status::skipped || !run.reason.empty(), "a skipped {} run has no reason",
         run.strategy);
  if (run.error) json["error"] = error_json(*run.error);
  if (!run.reason.empty()) json["reason"] = run.reason;
}

void put_setting(Json& json, const Run& run) {
  const std::string reason = missing_reason(run);
  const bool alone = run.status == Status::ok && run.world_size == 1;
  json["strategy"] = run.strategy;
  json["world_size"] = run.world_size;
  json["servers"] = run.servers;
  json["repetition"] = run.repetition;
  if (run.sequence) json["sequence"] = *run.sequence;
  if (!run.started_at.empty()) json["started_at"] = run.started_at;
  json["device"] = run.device;
  put_text(json, "device_model", run.device_model, reason);
  json["threads_per_device"] = run.threads_per_device;
  put_text(json, "backend", run.backend, alone ? "one device: nothing to communicate" : reason);
  json["precision"] = run.precision;
  json["model"] = run.model;
  put_count(json, "parameters", run.parameters, reason);
  json["optimizer"] = optimizer_json(run);
  put_count(json, "per_device_batch_size", run.per_device_batch_size, reason);
  put_count(json, "global_batch_size", run.global_batch_size, reason);
  json["accumulation_steps"] = run.accumulation_steps;
  json["scaling_mode"] = run.scaling_mode;
  json["oversubscribed"] = run.oversubscribed;
  json["strategy_options"] = options_json(run.strategy_options);
  json["injected"] = or_null(run.injected);
  json["dataset"] = dataset_json(run);
}

void put_scaling(Json& json, const Run& run) {
  if (run.scaling) {
    json["scaling"] = {{"baseline", run.scaling->baseline},
                       {"speedup", run.scaling->speedup},
                       {"efficiency", run.scaling->efficiency}};
  } else {
    put_missing(json, "scaling",
                run.scaling_reason.empty() ? missing_reason(run) : run.scaling_reason);
  }
}

Json why_json(const Why& why) {
  Json json = {{"cause", why.cause},
               {"sentence", why.sentence},
               {"advice", or_null(why.advice)},
               {"parts", Json::object()}};
  for (const auto& [name, figure] : why.parts) {
    put_figure(json["parts"], name, figure, "not recorded");
  }
  return json;
}

}  // namespace

Json run_json(const Run& run) {
  const std::string reason = missing_reason(run);
  Json json;
  put_status(json, run);
  put_setting(json, run);
  json["time"] = time_json(run);
  json["epochs"] = Json::array();
  for (const EpochRow& epoch : run.epochs) json["epochs"].push_back(epoch_json(epoch));
  json["step"] = step_json(run);
  json["phases"] = phases_json(run);
  json["devices"] = Json::array();
  for (const DeviceRow& device : run.devices) {
    json["devices"].push_back(device_json(device, reason));
  }
  json["verification"] = verification_json(run);
  put_scaling(json, run);
  Json throughput;
  put_figure(throughput, "samples_per_s", run.samples_per_s, reason);
  put_figure(throughput, "samples_per_s_per_device", run.samples_per_s_per_device, reason);
  json["throughput"] = std::move(throughput);
  if (run.why) json["why"] = why_json(*run.why);
  if (run.conditions) json["conditions"] = conditions_json(*run.conditions);
  return json;
}

}  // namespace ddpbench::report
