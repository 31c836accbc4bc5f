// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/json/gpu_json.h"

namespace ddpbench::report {
namespace {

constexpr const char* kUnknown = "not reported by this system";

Json as_json(const SampleRange& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}
template <typename T>
Json as_json(const T& value) {
  return value;
}

template <typename T>
void put_known(Json& json, const std::string& key, const Known<T>& known) {
  if (known.value) {
    json[key] = as_json(*known.value);
  } else {
    put_missing(json, key, known.reason.empty() ? kUnknown : known.reason);
  }
}

Json link_json(const GpuLink& link) {
  Json json = {{"to", link.to}};
  put_known(json, "peer_access", link.peer_access);
  put_known(json, "nvlinks", link.nvlinks);
  put_known(json, "nvlink_version", link.nvlink_version);
  put_known(json, "pcie_path", link.pcie_path);
  return json;
}

Json telemetry_json(const GpuTelemetry& telemetry) {
  Json json = {{"samples", telemetry.samples}, {"interval_s", telemetry.interval_s}};
  for (const auto& [key, spread] : kTelemetryFigures) put_known(json, key, telemetry.*spread);
  put_known(json, "clock_event_ratios", telemetry.clock_event_ratios);
  return json;
}

}  // namespace

Json gpu_json(const GpuInfo& gpu) {
  Json json;
  put_text(json, "name", gpu.name, kUnknown);
  put_text(json, "driver", gpu.driver, kUnknown);
  put_count(json, "memory_bytes", gpu.memory_bytes, kUnknown);
  put_text(json, "uuid", gpu.uuid, kUnknown);
  put_text(json, "pci_bus_id", gpu.pci_bus_id, kUnknown);
  put_text(json, "compute_capability", gpu.compute_capability, kUnknown);
  put_count(json, "multiprocessors", gpu.multiprocessors, kUnknown);
  put_count(json, "l2_bytes", gpu.l2_bytes, kUnknown);
  put_known(json, "numa_node", gpu.numa_node);
  put_known(json, "pcie_generation", gpu.pcie_generation);
  put_known(json, "pcie_width", gpu.pcie_width);
  json["links"] = Json::array();
  for (const GpuLink& link : gpu.links) json["links"].push_back(link_json(link));
  return json;
}

void put_driver_bytes(Json& memory, const Known<DriverBytes>& bytes) {
  put_known(memory, "driver_bytes", bytes);
}

void put_telemetry(Json& device, const Known<GpuTelemetry>& telemetry) {
  if (telemetry.value) {
    device["gpu_telemetry"] = telemetry_json(*telemetry.value);
  } else {
    put_missing(device, "gpu_telemetry",
                telemetry.reason.empty() ? "not recorded" : telemetry.reason);
  }
}

}  // namespace ddpbench::report
