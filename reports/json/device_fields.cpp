// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The fields of devices: what each did in a run, and the GPUs of a host.
#include <array>

#include "reports/json/field_lists.h"

namespace ddpbench::report {
namespace {

constexpr std::array<std::string_view, 2> kRoles = {"worker", "server"};

constexpr auto kBucketFields = [](auto& f, auto& bucket) {
  f.value("bucket", bucket.bucket);
  f.value("bytes", bucket.bytes);
  f.amount("ready_s", bucket.ready_s);
  f.amount("start_s", bucket.start_s);
  f.amount_or_reason("arrived_s", bucket.arrived_s, bucket.arrived_reason, bucket.start_s);
  f.amount("end_s", bucket.end_s);
};

constexpr auto kRangeFields = [](auto& f, auto& range) {
  f.amount("median", range.median);
  f.amount("min", range.min);
  f.amount("max", range.max);
};

constexpr auto kTelemetryFields = [](auto& f, auto& telemetry) {
  f.integer("samples", telemetry.samples, std::int64_t{1},
            std::numeric_limits<std::int64_t>::max());
  f.amount("interval_s", telemetry.interval_s);
  const auto range = [&f](const char* key, auto& known) {
    f.later().known_object(key, known, kRangeFields, kUnknown);
  };
  range("utilization_ratio", telemetry.utilization_ratio);
  range("sm_clock_mhz", telemetry.sm_clock_mhz);
  range("memory_clock_mhz", telemetry.memory_clock_mhz);
  range("power_w", telemetry.power_w);
  range("temperature_celsius", telemetry.temperature_celsius);
  f.later().known("clock_event_ratios", telemetry.clock_event_ratios, kUnknown);
};

template <typename Fields, typename Device>
void list_device(Fields& f, Device& device, const std::string& reason) {
  f.value("rank", device.rank);
  f.value("process_rank", device.process_rank);
  f.word("role", device.role, kRoles);
  f.value("host", device.host);
  f.value("device", device.device);
  f.value("cores", device.cores);
  f.amount_figure("step_time_median_s", device.step_time_median_s,
                  device.role == "server" ? "a server takes no steps of its own" : reason);
  f.object("memory", device, [&reason](auto& memory, auto& row) {
    memory.count_or_reason("peak_bytes", row.peak_bytes, row.peak_reason);
    memory.value("by_category_bytes", row.by_category_bytes);
    memory.amount_figure("process_peak_rss_bytes", row.process_peak_rss_bytes, reason);
    memory.later().known("driver_bytes", row.driver_bytes, kUnknown);
  });
  f.later().figures("phases", device.phases, reason);
  f.rows("buckets", device.buckets, kBucketFields);
  f.later().known_object("gpu_telemetry", device.gpu_telemetry, kTelemetryFields, "not recorded");
}

constexpr auto kLinkFields = [](auto& f, auto& link) {
  f.value("to", link.to);
  f.early_flag("peer_access", link.peer_access, kUnknown);
  f.later().known("nvlinks", link.nvlinks, kUnknown);
  f.later().known("nvlink_version", link.nvlink_version, kUnknown);
  f.later().known_name("pcie_path", link.pcie_path, kUnknown);
};

template <typename Fields, typename Gpu>
void list_gpu(Fields& f, Gpu& gpu) {
  f.known_text("name", gpu.name, kUnknown);
  f.known_text("driver", gpu.driver, kUnknown);
  f.known_count("memory_bytes", gpu.memory_bytes, kUnknown);
  f.later().known_text("uuid", gpu.uuid, kUnknown);
  f.later().known_text("pci_bus_id", gpu.pci_bus_id, kUnknown);
  f.later().known_text("compute_capability", gpu.compute_capability, kUnknown);
  f.later().known_count("multiprocessors", gpu.multiprocessors, kUnknown);
  f.later().known_count("l2_bytes", gpu.l2_bytes, kUnknown);
  f.later().known("numa_node", gpu.numa_node, kUnknown);
  f.later().known("pcie_generation", gpu.pcie_generation, kUnknown);
  f.later().known("pcie_width", gpu.pcie_width, kUnknown);
  f.later().rows("links", gpu.links, kLinkFields);
}

}  // namespace

void device_fields(FieldWriter& f, const DeviceRow& device, const std::string& reason) {
  list_device(f, device, reason);
}
void device_fields(FieldReader& f, DeviceRow& device, const std::string& reason) {
  list_device(f, device, reason);
}

void gpu_fields(FieldWriter& f, const GpuInfo& gpu) { list_gpu(f, gpu); }
void gpu_fields(FieldReader& f, GpuInfo& gpu) { list_gpu(f, gpu); }

}  // namespace ddpbench::report
