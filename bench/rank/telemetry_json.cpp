// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/telemetry_json.h"

#include <nlohmann/json.hpp>

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using report::GpuTelemetry;
using report::SampleRange;
using Ratios = std::map<std::string, double>;

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

}  // namespace

json telemetry_to_json(const Known<GpuTelemetry>& telemetry) {
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

}  // namespace ddpbench::bench
