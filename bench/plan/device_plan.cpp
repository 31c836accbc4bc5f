// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/device_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace ddpbench::bench {

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
  if (choice.device == "cpu" && backend != "auto" && backend != "ring") {
    throw UnavailableError(
        fmt::format("--backend={}: CPU devices have the backend 'ring' only", backend));
  }
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
  if (wanted != "auto") return wanted;
  return device == "cuda" && !shared_gpus ? "nccl" : "ring";
}

void refuse_nccl_between_threads(std::string_view command, const std::string& backend,
                                 bool shared_gpus) {
  if (backend != "nccl" || !shared_gpus) return;
  throw UnavailableError(
      fmt::format("{} --backend=nccl --oversubscribe: NCCL refuses ranks of one process that share "
                  "a GPU; use --backend=ring",
                  command));
}

}  // namespace ddpbench::bench
