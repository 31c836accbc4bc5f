// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GpuMonitor: what the driver reports of GPUs while they work (load, clocks, power, heat). It is
// defined in the CUDA module, which opens the driver's library (NVML)
// at run time; callers need neither CUDA nor NVML.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddpbench {

// The reasons for a GPU's clock rates, as bits 1 << index. Reports use these words.
inline constexpr auto kClockEvents = std::to_array<std::string_view>(
    {"gpu_idle", "application_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost",
     "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
     "display_clock_setting", "other"});

// The state of one GPU, as the driver reports it at one moment.
struct GpuSample {
  Known<double> utilization_ratio;  // share of the driver's last period in which a kernel ran
  Known<double> sm_clock_mhz, memory_clock_mhz;
  Known<double> power_w;
  Known<double> temperature_celsius;
  Known<std::uint32_t> clock_events;  // bits of kClockEvents
};

struct PcieSlot {
  Known<int> generation, width;  // the most that GPU and slot can do, not what an idle GPU uses
};

class GpuMonitor {
 public:
  virtual ~GpuMonitor() = default;
  // Why the monitor can report nothing at all; empty: it can report.
  virtual const std::string& reason() const noexcept = 0;
  virtual Known<std::string> driver_version() = 0;
  // REQUIRES: gpu < number of uuids. Takes microseconds to a millisecond. One thread at a time.
  virtual GpuSample sample(std::size_t gpu) = 0;
  virtual PcieSlot pcie_slot(std::size_t gpu) = 0;
};

struct GpuMonitorOptions {
  std::vector<std::string> uuids;  // "GPU-...", as CudaDeviceInfo has them
  std::string library = "libnvidia-ml.so.1";
};

// Never throws: without a driver the monitor reports only the reason.
std::unique_ptr<GpuMonitor> make_gpu_monitor(const GpuMonitorOptions& options);

}  // namespace ddpbench
