// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// gpu_json.cpp backwards, in the same order.
#include "reports/json/gpu_json.h"

namespace ddpbench::report {
namespace {

// Member `key` by `read`, with its reason when it is null; unknown when a report has no such key.
template <typename T, typename Read>
Known<T> read_known(const JsonCursor& value, const std::string& key, const Read& read) {
  const auto member = value.find(key);
  if (!member) return {};
  if (member->is_null()) return Known<T>::missing(value.at(key + kReasonSuffix).text());
  return Known<T>::of(read(*member));
}

Known<int> read_count(const JsonCursor& value, const std::string& key) {
  return read_known<int>(value, key, [](const JsonCursor& v) { return v.integer<int>(); });
}

std::string text_if_there(const JsonCursor& value, const std::string& key) {
  const auto member = value.find(key);
  return member ? member->text_or_empty() : "";
}

template <typename T>
T count_if_there(const JsonCursor& value, const std::string& key) {
  const auto member = value.find(key);
  return member ? member->integer_or_zero<T>() : T{};
}

SampleRange read_spread(const JsonCursor& value) {
  return {value.at("median").amount(), value.at("min").amount(), value.at("max").amount()};
}

std::map<std::string, double> read_ratios(const JsonCursor& value) {
  std::map<std::string, double> ratios;
  for (const auto& [name, ratio] : value.members()) ratios[name] = ratio.amount();
  return ratios;
}

GpuLink read_link(const JsonCursor& value) {
  GpuLink link;
  link.to = value.at("to").integer<int>();
  const JsonCursor peer = value.at("peer_access");
  link.peer_access = peer.is_null()
                         ? Known<bool>::missing(text_if_there(value, "peer_access_reason"))
                         : Known<bool>::of(peer.boolean());
  link.nvlinks = read_count(value, "nvlinks");
  link.nvlink_version = read_count(value, "nvlink_version");
  link.pcie_path = read_known<std::string>(value, "pcie_path",
                                           [](const JsonCursor& v) { return v.text_not_empty(); });
  return link;
}

}  // namespace

GpuInfo read_gpu(const JsonCursor& value) {
  GpuInfo gpu;
  gpu.name = value.at("name").text_or_empty();
  gpu.driver = value.at("driver").text_or_empty();
  gpu.memory_bytes = value.at("memory_bytes").integer_or_zero<std::uint64_t>();
  gpu.uuid = text_if_there(value, "uuid");
  gpu.pci_bus_id = text_if_there(value, "pci_bus_id");
  gpu.compute_capability = text_if_there(value, "compute_capability");
  gpu.multiprocessors = count_if_there<int>(value, "multiprocessors");
  gpu.l2_bytes = count_if_there<std::uint64_t>(value, "l2_bytes");
  gpu.numa_node = read_count(value, "numa_node");
  gpu.pcie_generation = read_count(value, "pcie_generation");
  gpu.pcie_width = read_count(value, "pcie_width");
  if (const auto links = value.find("links")) {
    for (const JsonCursor& link : links->elements()) gpu.links.push_back(read_link(link));
  }
  return gpu;
}

Known<DriverBytes> read_driver_bytes(const JsonCursor& memory) {
  return read_known<DriverBytes>(memory, "driver_bytes", [](const JsonCursor& value) {
    DriverBytes bytes;
    for (const auto& [stage, count] : value.members()) {
      bytes[stage] = count.integer<std::uint64_t>();
    }
    return bytes;
  });
}

Known<GpuTelemetry> read_telemetry(const JsonCursor& device) {
  return read_known<GpuTelemetry>(device, "gpu_telemetry", [](const JsonCursor& value) {
    GpuTelemetry telemetry;
    telemetry.samples = value.at("samples").integer<std::int64_t>(1);
    telemetry.interval_s = value.at("interval_s").amount();
    for (const auto& [key, spread] : kTelemetryFigures) {
      telemetry.*spread = read_known<SampleRange>(value, key, read_spread);
    }
    telemetry.clock_event_ratios =
        read_known<std::map<std::string, double>>(value, "clock_event_ratios", read_ratios);
    return telemetry;
  });
}

}  // namespace ddpbench::report
