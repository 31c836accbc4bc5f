// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GpuMonitor on NVML.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "kernels/runtime/cuda/nvml_library.h"
#include "kernels/runtime/cuda/nvml_links.h"
#include "kernels/runtime/gpu_monitor.h"

namespace ddpbench {
namespace cuda {
namespace {

// NVML's bits (nvmlClocksEventReason...) have the order of kClockEvents; all others are new.
constexpr std::uint32_t kOther = 1U << (kClockEvents.size() - 1);
constexpr unsigned long long kKnown = kOther - 1;

std::uint32_t events_of(unsigned long long bits) {
  const auto known = static_cast<std::uint32_t>(bits & kKnown);
  return (bits & ~kKnown) == 0 ? known : known | kOther;
}

class NvmlMonitor final : public GpuMonitor {
 public:
  explicit NvmlMonitor(const GpuMonitorOptions& options) : library_(options.library) {
    for (const std::string& uuid : options.uuids) gpus_.push_back(find(uuid));
  }

  const std::string& reason() const noexcept override { return library_.reason(); }

  Known<std::string> driver_version() override {
    std::array<char, kNvmlVersionBytes> text{};
    const Caller call{library_, library_.reason()};
    const std::string why = call(functions().driver_version, "nvmlSystemGetDriverVersion",
                                 text.data(), kNvmlVersionBytes);
    return why.empty() ? Known<std::string>{text.data(), {}}
                       : Known<std::string>{std::nullopt, why};
  }

  GpuSample sample(std::size_t gpu) override {
    const Gpu& at = gpus_.at(gpu);
    const Caller call{library_, at.reason};
    const NvmlFunctions& f = functions();
    GpuSample sample;
    NvmlUtilization load{};
    const std::string no_load =
        call(f.utilization, "nvmlDeviceGetUtilizationRates", at.device, &load);
    sample.utilization_ratio = told(no_load, load.gpu, 0.01);
    unsigned value = 0;
    const auto number = [&](double unit, const auto&... arguments) {
      const std::string why = call(arguments..., &value);
      return told(why, value, unit);
    };
    constexpr const char* kClock = "nvmlDeviceGetClockInfo";
    sample.sm_clock_mhz = number(1, f.clock, kClock, at.device, int{kNvmlClockSm});
    sample.memory_clock_mhz = number(1, f.clock, kClock, at.device, int{kNvmlClockMemory});
    sample.power_w = number(1e-3, f.power, "nvmlDeviceGetPowerUsage", at.device);
    sample.temperature_celsius =
        number(1, f.temperature, "nvmlDeviceGetTemperature", at.device, int{kNvmlSensorGpu});
    unsigned long long bits = 0;
    const std::string why =
        call(f.clock_events, "nvmlDeviceGetCurrentClocksEventReasons", at.device, &bits);
    sample.clock_events.reason = why;
    if (why.empty()) sample.clock_events.value = events_of(bits);
    return sample;
  }

  PcieSlot pcie_slot(std::size_t gpu) override {
    const Gpu& at = gpus_.at(gpu);
    const Caller call{library_, at.reason};
    const auto number = [&](auto function, const char* name) {
      unsigned value = 0;
      Known<int> told{std::nullopt, call(function, name, at.device, &value)};
      if (told.reason.empty()) told.value = static_cast<int>(value);
      return told;
    };
    return {number(functions().pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration"),
            number(functions().pcie_width, "nvmlDeviceGetMaxPcieLinkWidth")};
  }

  std::vector<GpuConnection> connections() override { return connections_of(library_, gpus_); }

 private:
  const NvmlFunctions& functions() const { return library_.functions(); }

  static Known<double> told(const std::string& why, unsigned value, double unit) {
    if (!why.empty()) return {std::nullopt, why};
    return {unit * static_cast<double>(value), {}};
  }

  Gpu find(const std::string& uuid) const {
    Gpu gpu;
    const Caller call{library_, library_.reason()};
    gpu.reason =
        call(functions().device_by_uuid, "nvmlDeviceGetHandleByUUID", uuid.c_str(), &gpu.device);
    if (!gpu.reason.empty() && library_.reason().empty()) {
      gpu.reason = fmt::format("NVML does not know {}: {}", uuid, gpu.reason);
    }
    return gpu;
  }

  NvmlLibrary library_;
  std::vector<Gpu> gpus_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<GpuMonitor> make_gpu_monitor(const GpuMonitorOptions& options) {
  return std::make_unique<cuda::NvmlMonitor>(options);
}

}  // namespace ddpbench
