// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/device_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "parallel/comm_backends.h"

namespace ddpbench::bench {
namespace {

// GPU workers may have servers on CPU devices: then GPUs use a backend of CPU devices, too.
void refuse_absent_backend(const std::string& word, const std::string& device,
                           const HostDevices& host) {
  const CommBackend* const row = find_comm_backend(backend_name(word, device_kind(device)));
  if (row == nullptr) return;  // "auto"
  if (device == "cpu" && row->devices != DeviceKind::cpu) {
    throw UnavailableError(
        fmt::format("--backend={}: it connects GPUs, and the devices are on the CPU; use "
                    "--backend={}, or between hosts {}",
                    word, automatic_backend(DeviceKind::cpu, true).name,
                    backend_between_hosts(DeviceKind::cpu).name));
  }
  if (const std::string why = why_no_backend(*row, host.cuda); !why.empty()) {
    throw UnavailableError(fmt::format("--backend={}: {}", word, why));
  }
  if (!row->launcher.empty() && row->launcher != host.launcher && !is_launched()) {
    throw UnavailableError(
        fmt::format("--backend={}: {} starts its ranks, and did not start this process; start it "
                    "with {} -n RANKS ddpbench --backend={}, or give --launcher={}",
                    word, row->launcher, row->launcher, word, row->launcher));
  }
}

}  // namespace

DeviceKind device_kind(std::string_view word) {
  return word == to_string(DeviceKind::cuda) ? DeviceKind::cuda : DeviceKind::cpu;
}

KindChoice choose_kind(const std::string& device, const std::string& backend,
                       const HostDevices& host) {
  KindChoice choice{.device = device, .note = ""};
  const bool gpu = !host.cuda.devices.empty();
  if (device == "cuda" && !gpu) {
    throw UnavailableError(fmt::format("--device=cuda: {}; use --device=cpu", host.cuda.reason));
  }
  if (device == "auto") {
    choice.device = gpu ? "cuda" : "cpu";
    choice.note =
        gpu ? fmt::format("device: cuda (--device=auto: {}, the first is {})",
                          counted(host.cuda.devices.size(), "GPU"), host.cuda.devices[0].name)
            : fmt::format("device: cpu (--device=auto: {})", host.cuda.reason);
  }
  if (backend == kBackendAlias) {
    choice.note += fmt::format("{}backend: '{}' is the old name of {} on CPU devices, {} on GPUs",
                               choice.note.empty() ? "" : "\n", kBackendAlias,
                               backend_name(kBackendAlias, DeviceKind::cpu),
                               backend_name(kBackendAlias, DeviceKind::cuda));
  }
  refuse_absent_backend(backend, choice.device, host);
  return choice;
}

std::vector<int> next_gpus(const CudaProbe& cuda, int devices) {
  std::vector<int> gpus;
  for (std::size_t i = 0; i < static_cast<std::size_t>(devices); ++i) {
    gpus.push_back(cuda.devices[i % cuda.devices.size()].ordinal);
  }
  return gpus;
}

std::string are_gpus(const CudaProbe& cuda) {
  const std::size_t count = cuda.devices.size();
  return count == 1 ? "is 1 GPU" : fmt::format("are {} GPUs", count);
}

void refuse_missing_gpus(const CudaProbe& cuda, std::string_view option, int devices,
                         bool oversubscribe, std::string_view advice) {
  if (devices <= static_cast<int>(cuda.devices.size()) || oversubscribe) return;
  throw UnavailableError(
      fmt::format("{}={}: there {} here; {}", option, devices, are_gpus(cuda), advice));
}

std::string common_backend(const std::vector<std::string>& backends) {
  std::string common;
  for (const std::string& backend : backends) {
    if (backend == "none" || backend == common) continue;
    if (!common.empty()) return "auto";
    common = backend;
  }
  return common.empty() ? "auto" : common;
}

std::string choose_backend(const std::string& wanted, const std::string& device, bool shared_gpus) {
  if (wanted != "auto") {
    std::string name = backend_name(wanted, device_kind(device));
    if (connects(comm_backend(name), device_kind(device))) return name;
    throw ConfigError(
        fmt::format("--backend={} --device={}: it connects other devices; use "
                    "--backend={}",
                    wanted, device, automatic_backend(device_kind(device), shared_gpus).name));
  }
  return std::string(automatic_backend(device_kind(device), shared_gpus).name);
}

void refuse_staging_threads(std::string_view command, const std::string& backend,
                            const std::string& device) {
  const CommBackend* const row = find_comm_backend(backend);
  if (row == nullptr || !is_staged(*row, device_kind(device))) return;
  throw UnavailableError(
      fmt::format("{} --backend={}: it moves the data of GPUs through host memory, with one GPU a "
                  "process; use --backend={}",
                  command, backend, automatic_backend(device_kind(device), true).name));
}

void refuse_sharing_threads(std::string_view command, const std::string& backend,
                            bool shared_gpus) {
  const CommBackend* const row = find_comm_backend(backend);
  if (row == nullptr || row->shares_devices || !shared_gpus) return;
  throw UnavailableError(
      fmt::format("{} --backend={} --oversubscribe: {} refuses ranks of one process that share a "
                  "GPU; use --backend={}",
                  command, backend, backend, automatic_backend(row->devices, true).name));
}

}  // namespace ddpbench::bench
