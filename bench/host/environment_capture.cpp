// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/environment_capture.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "bench/host/build_info.h"
#include "kernels/ops/backend.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

// Of Open MPI those that choose and tune how messages travel. mpirun sets others that differ from
// job to job.
constexpr std::string_view kPrefixes[] = {
    "OMP_",      "GOMP_", "KMP_",  "MKL_",         "DNNL_",        "ONEDNN_",
    "OPENBLAS_", "NCCL_", "CUDA_", "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_coll_"};
constexpr std::string_view kNames[] = {"GLIBC_TUNABLES",   "LD_LIBRARY_PATH",   "LD_PRELOAD",
                                       "MALLOC_ARENA_MAX", "DDPBENCH_LAUNCHER", "DDPBENCH_PRESET"};

bool is_recorded(const std::string& name, const std::vector<std::string>& options) {
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); }) ||
         std::ranges::count(kNames, name) != 0 || std::ranges::count(options, name) != 0;
}

// Reads PRETTY_NAME of os-release(5), without its quotes.
std::string operating_system() {
  std::ifstream file("/etc/os-release");
  const std::string key = "PRETTY_NAME=";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    line = line.substr(key.size());
    std::erase(line, '"');
    return line;
  }
  return "unknown";
}

report::CpuInfo cpu_info() {
  const CpuTopology topology = read_usable_cpu();
  return {.model = topology.model,
          .cores = static_cast<int>(topology.cores.size()),
          .processors = topology.processors,
          .l2_bytes = topology.l2_bytes,
          .l3_bytes = topology.l3_bytes,
          .memory_bytes = topology.memory_bytes,
          .features = topology.features};
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

Variables recorded_variables(const Variables& all, const std::vector<std::string>& options) {
  Variables recorded;
  for (const auto& [name, value] : all)
    if (is_recorded(name, options)) recorded.emplace(name, value);
  return recorded;
}

report::Environment capture_environment(const Variables& recorded, const Variables& libraries) {
  report::Environment environment;
  utsname system{};
  if (uname(&system) == 0) {
    environment.hosts = {system.nodename};
    environment.kernel = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  }
  environment.operating_system = operating_system();
  environment.tcp_congestion_control = tcp_congestion_control();
  environment.cpu = cpu_info();
  environment.libraries = build_libraries();
  environment.libraries["glibc"] = gnu_get_libc_version();
  environment.libraries["compiler"] = build_info().compiler;
  for (const auto& [name, version] : libraries) environment.libraries[name] = version;
  environment.variables = recorded;
  return environment;
}

report::Environment environment_of_process(const std::vector<std::string>& options) {
  return capture_environment(recorded_variables(launch::environment_variables(), options),
                             ops::library_versions());
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
  return gpus;
}

void add_gpus(report::Environment& environment, const HostDevices& host) {
  if (host.cuda.devices.empty()) return;
  const CudaModule& cuda = cuda_module();
  GpuMonitorOptions options;
  for (const CudaDeviceInfo& device : host.cuda.devices) options.uuids.push_back(device.uuid);
  environment.gpus = gpu_infos(host.cuda, *cuda.make_monitor(options));
  for (const auto& [name, version] : cuda.library_versions()) {
    environment.libraries[name] = version;
  }
}

}  // namespace ddpbench::bench
