// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/gpu_environment.h"

#include <fmt/format.h>

namespace ddpbench::bench {
namespace {

Known<bool> peer_access(const CudaProbe& probe, int from, int to) {
  for (const CudaLink& link : probe.links) {
    if (link.from == from && link.to == to) return Known<bool>::of(link.peer_access);
  }
  return Known<bool>::missing("no process sees both GPUs");
}

report::GpuInfo gpu_info(const CudaDeviceInfo& device) {
  report::GpuInfo gpu;
  gpu.name = device.name;
  gpu.memory_bytes = device.memory_bytes;
  gpu.uuid = device.uuid;
  gpu.pci_bus_id = device.pci_bus_id;
  gpu.compute_capability =
      fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10);
  gpu.multiprocessors = device.multiprocessors;
  gpu.l2_bytes = device.l2_bytes;
  gpu.numa_node = device.numa_node < 0
                      ? Known<int>::missing("the host has one memory, or does not say")
                      : Known<int>::of(device.numa_node);
  return gpu;
}

}  // namespace

GpuMonitorOptions monitor_options(const CudaProbe& probe) {
  GpuMonitorOptions options;
  for (const CudaDeviceInfo& device : probe.devices) options.uuids.push_back(device.uuid);
  return options;
}

std::vector<report::GpuInfo> gpu_infos(const CudaProbe& probe, GpuMonitor& monitor) {
  std::vector<report::GpuInfo> gpus;
  const std::string driver = monitor.driver_version().value.value_or("");
  for (std::size_t i = 0; i < probe.devices.size(); ++i) {
    gpus.push_back(gpu_info(probe.devices[i]));
    gpus.back().driver = driver;
    const PcieSlot slot = monitor.pcie_slot(i);
    gpus.back().pcie_generation = slot.generation;
    gpus.back().pcie_width = slot.width;
  }
  for (const GpuConnection& connection : monitor.connections()) {
    report::GpuLink link;
    link.to = static_cast<int>(connection.to);
    link.peer_access = peer_access(probe, probe.devices.at(connection.from).ordinal,
                                   probe.devices.at(connection.to).ordinal);
    link.nvlinks = connection.nvlinks;
    link.nvlink_version = connection.nvlink_version;
    link.pcie_path = connection.pcie_path;
    gpus.at(connection.from).links.push_back(std::move(link));
  }
  return gpus;
}

void add_gpus(report::Environment& environment, const HostDevices& host) {
  if (host.cuda.devices.empty()) return;
  const CudaModule& cuda = cuda_module();
  environment.gpus = gpu_infos(host.cuda, *cuda.make_monitor(monitor_options(host.cuda)));
  for (const auto& [name, version] : cuda.library_versions()) {
    environment.libraries[name] = version;
  }
}

}  // namespace ddpbench::bench
