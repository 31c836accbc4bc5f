// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/rank_result.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using report::GpuTelemetry;
using report::SampleRange;
using Ratios = std::map<std::string, double>;

// JSON has no infinity; an error that is infinite travels as null.
json json_number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
double json_number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

template <typename T>
json optional_value(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}
template <typename T>
std::optional<T> optional_value(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<T>());
}

json as_json(const SampleRange& range) { return {range.median, range.min, range.max}; }
json as_json(const Ratios& ratios) { return ratios; }

template <typename T>
json known_json(const Known<T>& known) {
  return {{"value", known.value ? as_json(*known.value) : json(nullptr)}, {"reason", known.reason}};
}

Known<SampleRange> range_from(const json& j) {
  const json& value = j.at("value");
  if (value.is_null()) return Known<SampleRange>::missing(j.at("reason"));
  return Known<SampleRange>::of({value.at(0), value.at(1), value.at(2)});
}

Known<Ratios> ratios_from(const json& j) {
  const json& value = j.at("value");
  if (value.is_null()) return Known<Ratios>::missing(j.at("reason"));
  return Known<Ratios>::of(value.get<Ratios>());
}

json to_json(const Known<GpuTelemetry>& telemetry) {
  if (!telemetry.value) return {{"reason", telemetry.reason}};
  const GpuTelemetry& told = *telemetry.value;
  return {{"samples", told.samples},
          {"interval_s", told.interval_s},
          {"utilization_ratio", known_json(told.utilization_ratio)},
          {"sm_clock_mhz", known_json(told.sm_clock_mhz)},
          {"memory_clock_mhz", known_json(told.memory_clock_mhz)},
          {"power_w", known_json(told.power_w)},
          {"temperature_celsius", known_json(told.temperature_celsius)},
          {"clock_event_ratios", known_json(told.clock_event_ratios)}};
}

Known<GpuTelemetry> telemetry_from_json(const json& j) {
  if (j.contains("reason")) return Known<GpuTelemetry>::missing(j.at("reason"));
  GpuTelemetry told;
  told.samples = j.at("samples");
  told.interval_s = j.at("interval_s");
  told.utilization_ratio = range_from(j.at("utilization_ratio"));
  told.sm_clock_mhz = range_from(j.at("sm_clock_mhz"));
  told.memory_clock_mhz = range_from(j.at("memory_clock_mhz"));
  told.power_w = range_from(j.at("power_w"));
  told.temperature_celsius = range_from(j.at("temperature_celsius"));
  told.clock_event_ratios = ratios_from(j.at("clock_event_ratios"));
  return Known<GpuTelemetry>::of(std::move(told));
}

json to_json(const EpochResult& epoch) {
  return {{"epoch", epoch.epoch},
          {"begin_s", epoch.begin_s},
          {"end_s", epoch.end_s},
          {"samples", epoch.samples},
          {"loss_sum", json_number(epoch.loss_sum)},
          {"correct", epoch.correct},
          {"test_samples", epoch.test_samples},
          {"test_correct", epoch.test_correct}};
}

EpochResult epoch_from(const json& j) {
  return {.epoch = j.at("epoch"),
          .begin_s = j.at("begin_s"),
          .end_s = j.at("end_s"),
          .samples = j.at("samples"),
          .loss_sum = json_number(j.at("loss_sum")),
          .correct = j.at("correct"),
          .test_samples = j.at("test_samples"),
          .test_correct = j.at("test_correct")};
}

json to_json(const DeviceResult& device) {
  return {{"replica", device.replica},
          {"role", device.role},
          {"device", device.device},
          {"model", device.model},
          {"cores", device.cores},
          {"peak_bytes", device.peak_bytes},
          {"by_category_bytes", device.by_category_bytes},
          {"gpu_telemetry", to_json(device.gpu_telemetry)},
          {"driver_bytes", device.driver_bytes}};
}

DeviceResult device_from(const json& j) {
  return {
      .replica = j.at("replica"),
      .role = j.at("role"),
      .device = j.at("device"),
      .model = j.at("model"),
      .cores = j.at("cores").get<std::vector<int>>(),
      .peak_bytes = j.at("peak_bytes"),
      .by_category_bytes = j.at("by_category_bytes").get<std::map<std::string, std::uint64_t>>(),
      .gpu_telemetry = telemetry_from_json(j.at("gpu_telemetry")),
      .driver_bytes = j.at("driver_bytes").get<report::DriverBytes>()};
}

json to_json(const VerificationResult& result) {
  return {{"max_relative_error", json_number(result.max_relative_error)},
          {"worst_tensor", result.worst_tensor},
          {"weights_hash", result.weights_hash}};
}

VerificationResult verification_from(const json& j) {
  return {.max_relative_error = json_number(j.at("max_relative_error")),
          .worst_tensor = j.at("worst_tensor"),
          .weights_hash = j.at("weights_hash")};
}

template <typename T>
json list(const std::vector<T>& values) {
  json out = json::array();
  for (const T& value : values) out.push_back(to_json(value));
  return out;
}

}  // namespace

std::string to_json_text(const RankResult& result) {
  const json j = {{"host", result.host},
                  {"all_reduce", result.all_reduce},
                  {"devices", list(result.devices)},
                  {"parameters", result.parameters},
                  {"verification", list(result.verification)},
                  {"verify_s", optional_value(result.verify_s)},
                  {"warmup_s", optional_value(result.warmup_s)},
                  {"train_s", optional_value(result.train_s)},
                  {"evaluate_s", optional_value(result.evaluate_s)},
                  {"warmup_steps", optional_value(result.warmup_steps)},
                  {"warmup_steady", optional_value(result.warmup_steady)},
                  {"epochs", list(result.epochs)},
                  {"calls", result.calls}};
  return j.dump();
}

RankResult rank_result_from_text(const std::string& text) {
  RankResult result;
  if (text.empty()) return result;
  const json j = json::parse(text);
  j.at("host").get_to(result.host);
  j.at("all_reduce").get_to(result.all_reduce);
  for (const json& device : j.at("devices")) result.devices.push_back(device_from(device));
  j.at("parameters").get_to(result.parameters);
  for (const json& v : j.at("verification")) result.verification.push_back(verification_from(v));
  result.verify_s = optional_value<double>(j.at("verify_s"));
  result.warmup_s = optional_value<double>(j.at("warmup_s"));
  result.train_s = optional_value<double>(j.at("train_s"));
  result.evaluate_s = optional_value<double>(j.at("evaluate_s"));
  result.warmup_steps = optional_value<std::int64_t>(j.at("warmup_steps"));
  result.warmup_steady = optional_value<bool>(j.at("warmup_steady"));
  for (const json& epoch : j.at("epochs")) result.epochs.push_back(epoch_from(epoch));
  j.at("calls").get_to(result.calls);
  return result;
}

}  // namespace ddpbench::bench
