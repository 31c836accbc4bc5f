// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// DevicePlan: the devices of a job, and the backend that moves data between them. The functions
// below resolve --device, --backend and --oversubscribe, for training runs and `ddpbench comm`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bench/host/host_devices.h"

namespace ddpbench::bench {

// The kind for "cpu" or "cuda".
DeviceKind device_kind(std::string_view word);

struct DevicePlan {
  std::string device = "cpu";   // cpu | cuda
  std::string backend = "shm";  // a name of comm_backends(); "none" for one device
  int threads_per_device = 1;
  // [device] OS processors. Devices share them where there are too few.
  std::vector<std::vector<int>> cores;
  std::vector<int> gpus;        // [device] CUDA's number of its GPU; devices on GPUs come first
  bool oversubscribed = false;  // devices share GPUs or, on CPU devices, cores

  bool is_on_gpu(int index) const { return static_cast<std::size_t>(index) < gpus.size(); }
};

// Resolves --device on `host`. Throws UnavailableError when there is no such device, or no device
// that has the backend.
struct KindChoice {
  std::string device;  // cpu | cuda
  std::string note;    // for people: why auto took it, or what a backend's old name means
};
KindChoice choose_kind(const std::string& device, const std::string& backend,
                       const HostDevices& host);

// Deals out the GPUs to `devices` devices in turn. REQUIRES: there are GPUs.
std::vector<int> next_gpus(const CudaProbe& cuda, int devices);
// Advice for too few GPUs, in training runs and in those whose ranks a launcher started.
inline constexpr std::string_view kGpuAdvice = "use fewer, or --oversubscribe to let devices share";
inline constexpr std::string_view kLaunchedGpuAdvice =
    "use fewer, or --oversubscribe to let devices share (a launcher has to show every rank a GPU "
    "of its own, or all of its host)";
// Returns "is 1 GPU", "are 2 GPUs".
std::string are_gpus(const CudaProbe& cuda);
// Throws UnavailableError with `advice` when there are fewer GPUs than devices and --oversubscribe
// does not let devices share. `option` asked for the devices ("--gpus").
void refuse_missing_gpus(const CudaProbe& cuda, std::string_view option, int devices,
                         bool oversubscribe, std::string_view advice);

// `backends`: those of several runs or worlds. A run of one device moves no data and has "none".
// Returns the backend that all others share; "auto" where they differ or none moves data.
std::string common_backend(const std::vector<std::string>& backends);
// Returns a name of comm_backends() for `wanted`, which may be "auto" or the alias. Throws
// ConfigError for a backend of the other kind of device.
std::string choose_backend(const std::string& wanted, const std::string& device, bool shared_gpus);
// Throws UnavailableError when the ranks would be threads of one process and the backend would move
// their GPUs' data through host memory (comm::make_staged). `command`: the options that led there.
void refuse_staging_threads(std::string_view command, const std::string& backend,
                            const std::string& device);
// Throws UnavailableError when threads of one process would share a GPU and the backend does not
// let them.
void refuse_sharing_threads(std::string_view command, const std::string& backend, bool shared_gpus);

}  // namespace ddpbench::bench
