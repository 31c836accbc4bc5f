// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "bench/commands/subcommand.h"
#include "bench/host/build_info.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_limits.h"
#include "bench/host/terminal.h"
#include "bench/options/option_source.h"
#include "datasets/catalog.h"
#include "parallel/comm_backends.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// Sections of "  name   value" lines. A value that does not fit continues below where it began.
class Text {
 public:
  explicit Text(int width) : width_(static_cast<std::size_t>(std::max(width, 0))) {}

  void section(const std::string& title) { text_ += fmt::format("\n{}\n", title); }
  void line(const std::string& name, const std::string& value) {
    const std::string left = fmt::format("  {:<16} ", name);
    text_ += left + wrap(value, width_, kValueColumn, left.size());
  }
  void raw(const std::string& text) { text_ += text; }
  const std::string& str() const { return text_; }

 private:
  static constexpr std::size_t kValueColumn = 19;

  std::size_t width_;
  std::string text_;
};

std::string bytes(std::uint64_t count) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(count);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, units[unit]);
}

std::string known_bytes(std::uint64_t count) { return count == 0 ? "unknown" : bytes(count); }

std::string count_limit(const std::optional<std::uint64_t>& limit) {
  return limit ? fmt::format("{}", *limit) : "unlimited";
}

std::string byte_limit(const std::optional<std::uint64_t>& limit) {
  return limit ? bytes(*limit) : "unlimited";
}

void add_built_in(Text& text) {
  const BuildInfo build = build_info();
  text.section("Built in");
  text.line("compiler", build.compiler);
  text.line("build type", build.build_type.empty() ? "none" : build.build_type);
  if (!build.sanitizers.empty()) text.line("sanitizers", build.sanitizers);
  text.line("devices", build.cuda_module ? "cpu, cuda" : "cpu (DDPBENCH_ENABLE_CUDA=OFF)");
  text.line("strategies", joined(known_strategies(), ", "));
  text.line("data sets", joined(data::known_datasets(), ", "));
}

void add_gpu(Text& text, const report::GpuInfo& gpu, std::size_t index) {
  text.line(fmt::format("cuda:{}", index),
            fmt::format("{}, {}, driver {}", gpu.name, bytes(gpu.memory_bytes),
                        gpu.driver.empty() ? "unknown" : gpu.driver));
  if (gpu.uuid.empty()) return;
  text.line("", fmt::format("{}, PCI {}, NUMA node {}", gpu.uuid, gpu.pci_bus_id,
                            gpu.numa_node.value ? std::to_string(*gpu.numa_node.value)
                                                : std::string("unknown")));
  text.line("",
            fmt::format("compute capability {}, {} multiprocessors, L2 {}", gpu.compute_capability,
                        gpu.multiprocessors, known_bytes(gpu.l2_bytes)));
}

void add_devices(Text& text, const report::Environment& environment, const HostDevices& host) {
  const report::CpuInfo& cpu = environment.cpu;
  text.section("Devices");
  text.line("cpu", cpu.model);
  text.line("", fmt::format("{}, {}: up to {} of 1 thread without sharing cores",
                            counted(cpu.cores, "core"), counted(cpu.processors, "hardware thread"),
                            counted(cpu.cores, "device")));
  text.line("", fmt::format("L2 {} a core, L3 {}, memory {}", known_bytes(cpu.l2_bytes),
                            known_bytes(cpu.l3_bytes), known_bytes(cpu.memory_bytes)));
  text.line("", joined(cpu.features, " "));
  const std::string& no_bf16 = host.no_cpu_bf16;
  text.line("", no_bf16.empty() ? "--precision: fp32, bf16"
                                : fmt::format("--precision: fp32; not bf16: {}", no_bf16));
  for (std::size_t i = 0; i < environment.gpus.size(); ++i) add_gpu(text, environment.gpus[i], i);
  if (environment.gpus.empty()) text.line("cuda", host.cuda.reason);
}

// A line for each backend: what it connects, or why it is not here.
void add_backends(Text& text, const HostDevices& host) {
  text.section("Communication (--backend)");
  for (const CommBackend& backend : comm_backends()) {
    const std::string why = why_no_backend(backend, host.cuda);
    std::string words = backend_connects(backend);
    if (!why.empty()) words += "; not here: " + why;
    if (why.empty() && !backend.module.empty()) {
      words += fmt::format(", {}, {}", backend_module(backend).version(), backend.own_all_reduce);
    }
    text.line(std::string(backend.name), words);
  }
}

void add_limits(Text& text) {
  const HostLimits limits = read_host_limits();
  text.section("Limits");
  text.line("open files", count_limit(limits.open_files));
  text.line("locked memory", byte_limit(limits.locked_memory_bytes));
  text.line("processes", count_limit(limits.processes) + " of this user");
  text.line("threads", count_limit(limits.threads) + " of the system");
  text.line("cpu quota", limits.cpu_quota ? fmt::format("{:.3g} CPUs", *limits.cpu_quota) : "none");
  text.line("memory", byte_limit(limits.memory_bytes));
  text.line("memory left", byte_limit(limits.memory_left_bytes ? limits.memory_left_bytes
                                                               : limits.host_available_bytes));
}

void add_places(Text& text, const std::string& data) {
  const InstallPaths paths = install_paths();
  text.section("Places");
  text.line("program files", paths.root.empty() ? fmt::format("not found; looked at {}",
                                                              fmt::join(paths.candidates, ", "))
                                                : fmt::format("{} ({})", paths.root, paths.origin));
  text.line("configurations", joined(config_names(paths.config_directories()), ", "));
  text.line("networks", joined(config_names({paths.models()}), ", "));
  text.line("data", data + (is_folder(data) ? "" : " (not there)"));
}

}  // namespace

std::string info_text(const report::Environment& environment, const HostDevices& host,
                      const std::string& data, int width) {
  Text text(width);
  text.raw(version_text());
  text.section("System");
  text.line("host", joined(environment.hosts, ", "));
  text.line("system", fmt::format("{}, {}", environment.operating_system, environment.kernel));
  const std::string& congestion_control = environment.tcp_congestion_control;
  text.line("TCP", fmt::format("congestion control {}",
                               congestion_control.empty() ? "unknown" : congestion_control));
  add_built_in(text);
  add_devices(text, environment, host);
  add_backends(text, host);
  text.section("Libraries");
  for (const auto& [name, version] : environment.libraries) text.line(name, version);
  add_limits(text);
  add_places(text, data);
  return text.str();
}

int show_info(const std::string& data) {
  report::Environment environment = environment_of_process({});
  const HostDevices host = find_devices("auto");
  add_gpus(environment, host);
  say("{}", info_text(environment, host, data, terminal_width()));
  return 0;
}

}  // namespace ddpbench::bench
