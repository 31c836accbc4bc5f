// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One run from JSON: run_json.cpp backwards, in the same order.
#include "reports/json/run_reader.h"

#include <array>
#include <cmath>
#include <limits>

#include "reports/json/gpu_json.h"
#include "reports/json/json_fields.h"

namespace ddpbench::report {
namespace {

using std::string_view;

constexpr std::array<string_view, 5> kVerificationWords = {"passed", "failed", "off", "reference",
                                                           "not_applicable"};
constexpr std::array<string_view, 2> kRoles = {"worker", "server"};
constexpr std::array<string_view, 2> kScalingModes = {"weak", "strong"};

// Generous, and small enough that their product, the largest global batch, fits 64 bits.
constexpr int kMostDevices = 100'000, kMostAccumulationSteps = 10'000;
constexpr std::int64_t kLargestBatch = 1'000'000'000;

std::int64_t read_batch(const JsonCursor& value, std::int64_t most) {
  return value.is_null() ? 0 : value.integer<std::int64_t>(1, most);
}

std::string option_text(const JsonCursor& value) {
  if (value.is_boolean()) return value.boolean() ? "on" : "off";
  if (value.is_number()) return value.dump();
  return value.text();
}

std::map<std::string, std::string> read_options(const JsonCursor& value) {
  std::map<std::string, std::string> options;
  for (const auto& [name, option] : value.members()) options[name] = option_text(option);
  return options;
}

void read_optimizer(const JsonCursor& value, Run& run) {
  run.optimizer_name = value.at("name").text();
  for (const auto& [name, number] : value.members()) {
    if (name != "name") run.optimizer[name] = number.number();
  }
}

void read_dataset(const JsonCursor& value, Run& run) {
  run.dataset_name = value.at("name").text_or_empty();
  run.dataset_source = value.at("source").text_or_empty();
  run.train_samples = value.at("train_samples").integer_or_zero<std::int64_t>();
  run.test_samples = value.at("test_samples").integer_or_zero<std::int64_t>();
}

Times read_time(const JsonCursor& value) {
  return {value.amount_figure("startup_s"),  value.amount_figure("verify_s"),
          value.amount_figure("warmup_s"),   value.amount_figure("train_s"),
          value.amount_figure("evaluate_s"), value.amount_figure("total_s")};
}

EpochRow read_epoch(const JsonCursor& value) {
  EpochRow epoch;
  epoch.epoch = value.at("epoch").integer<int>();
  epoch.time_s = value.at("time_s").amount();
  epoch.samples = value.at("samples").integer<std::int64_t>();
  epoch.samples_per_s = value.at("samples_per_s").amount();
  const Figure loss = value.figure("train_loss");
  epoch.train_loss = loss.value.value_or(std::numeric_limits<double>::quiet_NaN());
  epoch.train_accuracy = value.at("train_accuracy").amount();
  epoch.test_accuracy = value.amount_figure("test_accuracy");
  return epoch;
}

StepStatistics read_statistics(const JsonCursor& value) {
  StepStatistics statistics;
  statistics.median = value.at("median").amount();
  statistics.iqr = value.at("iqr").amount();
  statistics.p5 = value.at("p5").amount();
  statistics.p95 = value.at("p95").amount();
  statistics.p99 = value.at("p99").amount();
  statistics.min = value.at("min").amount();
  statistics.max = value.at("max").amount();
  return statistics;
}

StepSection read_step(const JsonCursor& value) {
  StepSection step;
  step.warmup = value.at("warmup").integer<int>();
  if (const auto steady = value.find("warmup_steady")) {
    if (steady->is_null()) {
      step.warmup_reason = value.at("warmup_steady_reason").text();
    } else {
      step.warmup_steady = steady->boolean();
    }
  }
  step.count = value.at("count").integer<std::int64_t>();
  const JsonCursor time = value.at("time_s");
  if (!time.is_null()) step.time_s = read_statistics(time);
  step.samples_s = value.at("samples_s").amounts();
  return step;
}

std::map<std::string, Figure> read_figures(const JsonCursor& value) {
  std::map<std::string, Figure> figures;
  for (const auto& [name, figure] : value.members()) {
    if (!name.ends_with(kReasonSuffix)) figures[name] = value.amount_figure(name);
  }
  return figures;
}

std::map<std::string, Figure> read_phases(const JsonCursor& value) {
  std::map<std::string, Figure> phases = read_figures(value);
  for (const char* name : kCommonPhases) phases[name] = value.amount_figure(name);
  return phases;
}

BucketRow read_bucket(const JsonCursor& value) {
  BucketRow bucket;
  bucket.bucket = value.at("bucket").integer<int>();
  bucket.bytes = value.at("bytes").integer<std::uint64_t>();
  bucket.ready_s = value.at("ready_s").amount();
  bucket.start_s = value.at("start_s").amount();
  bucket.arrived_s = value.at("arrived_s").amount();
  bucket.end_s = value.at("end_s").amount();
  return bucket;
}

void read_memory(const JsonCursor& value, DeviceRow& device) {
  const JsonCursor peak = value.at("peak_bytes");
  if (peak.is_null()) {
    device.peak_reason = value.at("peak_bytes_reason").text_not_empty();
  } else {
    device.peak_bytes = peak.integer<std::uint64_t>();
  }
  for (const auto& [category, bytes] : value.at("by_category_bytes").members()) {
    device.by_category_bytes[category] = bytes.integer<std::uint64_t>();
  }
  device.process_peak_rss_bytes = value.amount_figure("process_peak_rss_bytes");
  device.driver_bytes = read_driver_bytes(value);
}

DeviceRow read_device(const JsonCursor& value) {
  DeviceRow device;
  device.rank = value.at("rank").integer<int>();
  device.process_rank = value.at("process_rank").integer<int>();
  device.role = value.at("role").word(kRoles);
  device.host = value.at("host").text();
  device.device = value.at("device").text();
  for (const JsonCursor& core : value.at("cores").elements()) {
    device.cores.push_back(core.integer<int>());
  }
  device.step_time_median_s = value.amount_figure("step_time_median_s");
  read_memory(value.at("memory"), device);
  if (const auto phases = value.find("phases")) device.phases = read_figures(*phases);
  for (const JsonCursor& bucket : value.at("buckets").elements()) {
    device.buckets.push_back(read_bucket(bucket));
  }
  device.gpu_telemetry = read_telemetry(value);
  return device;
}

Conditions read_conditions(const JsonCursor& value) {
  Conditions conditions;
  for (const auto& [key, figure] : kConditionFigures) conditions.*figure = value.figure(key);
  for (const JsonCursor& note : value.at("notes").elements()) {
    conditions.notes.push_back(note.text());
  }
  return conditions;
}

Verification read_verification(const JsonCursor& value) {
  Verification verification;
  verification.status = value.at("status").word(kVerificationWords);
  verification.reason = value.at("reason").text_or_empty();
  verification.steps = value.at("steps").integer<int>();
  verification.max_relative_error = value.amount_figure("max_relative_error");
  verification.worst_tensor = value.at("worst_tensor").text_or_empty();
  verification.tolerance = value.amount_figure("tolerance");
  const JsonCursor equal = value.at("replicas_bit_equal");
  if (!equal.is_null()) verification.replicas_bit_equal = equal.boolean();
  return verification;
}

void read_scaling(const JsonCursor& value, Run& run) {
  const JsonCursor scaling = value.at("scaling");
  if (scaling.is_null()) {
    run.scaling_reason = value.at("scaling_reason").text();
    return;
  }
  run.scaling = Scaling{scaling.at("baseline").text(), scaling.at("speedup").amount(),
                        scaling.at("efficiency").amount()};
}

void read_outcome(const JsonCursor& value, Run& run) {
  run.status = read_status(value.at("status"));
  if (const auto error = value.find("error")) run.error = read_error(*error);
  if (const auto reason = value.find("reason")) run.reason = reason->text_not_empty();
  // The error and the reason say why; without them the report could not be written again.
  if (run.status == Status::failed) value.at("error");
  if (run.status == Status::skipped) value.at("reason");
}

void read_setting(const JsonCursor& value, Run& run) {
  run.strategy = value.at("strategy").text_not_empty();
  run.world_size = value.at("world_size").integer<int>(1, kMostDevices);
  run.servers = value.at("servers").integer<int>(0, kMostDevices);
  run.repetition = value.at("repetition").integer<int>();
  if (const auto sequence = value.find("sequence")) run.sequence = sequence->integer<int>();
  if (const auto started = value.find("started_at")) run.started_at = started->text();
  run.device = value.at("device").text();
  run.device_model = value.at("device_model").text_or_empty();
  run.threads_per_device = value.at("threads_per_device").integer<int>(1, kMostDevices);
  run.backend = value.at("backend").text_or_empty();
  run.precision = value.at("precision").text();
  run.model = value.at("model").text();
  run.parameters = value.at("parameters").integer_or_zero<std::int64_t>();
  read_optimizer(value.at("optimizer"), run);
  run.per_device_batch_size = read_batch(value.at("per_device_batch_size"), kLargestBatch);
  run.global_batch_size = value.at("global_batch_size").integer_or_zero<std::int64_t>();
  run.accumulation_steps = value.at("accumulation_steps").integer<int>(1, kMostAccumulationSteps);
  run.scaling_mode = value.at("scaling_mode").word(kScalingModes);
  run.oversubscribed = value.at("oversubscribed").boolean();
  run.strategy_options = read_options(value.at("strategy_options"));
  run.injected = value.at("injected").text_or_empty();
  read_dataset(value.at("dataset"), run);
}

Why read_why(const JsonCursor& value) {
  return {value.at("cause").text(), value.at("sentence").text(), value.at("advice").text_or_empty(),
          read_figures(value.at("parts"))};
}

}  // namespace

Run read_run(const JsonCursor& value) {
  Run run;
  read_outcome(value, run);
  read_setting(value, run);
  run.time = read_time(value.at("time"));
  for (const JsonCursor& epoch : value.at("epochs").elements()) {
    run.epochs.push_back(read_epoch(epoch));
  }
  run.step = read_step(value.at("step"));
  run.phases = read_phases(value.at("phases"));
  for (const JsonCursor& device : value.at("devices").elements()) {
    run.devices.push_back(read_device(device));
  }
  run.verification = read_verification(value.at("verification"));
  read_scaling(value, run);
  const JsonCursor throughput = value.at("throughput");
  run.samples_per_s = throughput.amount_figure("samples_per_s");
  run.samples_per_s_per_device = throughput.amount_figure("samples_per_s_per_device");
  if (const auto why = value.find("why")) run.why = read_why(*why);
  if (const auto conditions = value.find("conditions")) {
    run.conditions = read_conditions(*conditions);
  }
  return run;
}

}  // namespace ddpbench::report
