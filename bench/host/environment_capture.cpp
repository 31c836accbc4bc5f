// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/environment_capture.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "bench/host/build_info.h"
#include "kernels/runtime/cpu_topology.h"

namespace ddpbench::bench {
namespace {

constexpr std::string_view kPrefixes[] = {"OMP_",    "GOMP_",     "KMP_",  "MKL_", "DNNL_",
                                          "ONEDNN_", "OPENBLAS_", "NCCL_", "CUDA_"};
constexpr std::string_view kNames[] = {"GLIBC_TUNABLES",   "LD_LIBRARY_PATH",   "LD_PRELOAD",
                                       "MALLOC_ARENA_MAX", "DDPBENCH_LAUNCHER", "DDPBENCH_PRESET"};

bool is_recorded(const std::string& name, const std::vector<std::string>& options) {
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); }) ||
         std::ranges::count(kNames, name) != 0 || std::ranges::count(options, name) != 0;
}

// PRETTY_NAME of os-release(5), without its quotes.
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
  const CpuTopology topology = read_cpu_topology();
  return {.model = topology.model,
          .cores = static_cast<int>(topology.cores.size()),
          .processors = topology.processors,
          .l2_bytes = topology.l2_bytes,
          .l3_bytes = topology.l3_bytes,
          .memory_bytes = topology.memory_bytes,
          .features = topology.features};
}

}  // namespace

Variables process_variables() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Variables recorded_variables(const Variables& all, const std::vector<std::string>& options) {
  Variables recorded;
  for (const auto& [name, value] : all)
    if (is_recorded(name, options)) recorded.emplace(name, value);
  return recorded;
}

std::string host_name() {
  utsname system{};
  return uname(&system) == 0 ? system.nodename : "unknown";
}

report::Environment capture_environment(const Variables& recorded, const Variables& libraries) {
  report::Environment environment;
  utsname system{};
  if (uname(&system) == 0) {
    environment.hosts = {system.nodename};
    environment.kernel = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  }
  environment.operating_system = operating_system();
  environment.cpu = cpu_info();
  environment.libraries = build_libraries();
  environment.libraries["glibc"] = gnu_get_libc_version();
  environment.libraries["compiler"] = build_info().compiler;
  for (const auto& [name, version] : libraries) environment.libraries[name] = version;
  environment.variables = recorded;
  return environment;
}

}  // namespace ddpbench::bench
