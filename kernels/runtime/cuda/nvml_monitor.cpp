// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GpuMonitor on NVML.
#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"
#include "kernels/runtime/gpu_monitor.h"

namespace ddpbench {
namespace cuda {
namespace {

// The part of NVML's binary interface that is used here.
//
// It is written out because nvml.h would add nothing but a package to install: the library comes
// with the driver and is opened by name. NVML keeps what it once exported. The numbers and layouts
// below are those of the NVML API reference (r535 to r580).

struct NvmlDeviceOpaque;
using NvmlDevice = NvmlDeviceOpaque*;
using NvmlReturn = int;
inline constexpr NvmlReturn kNvmlSuccess = 0;

enum NvmlClock : int { kNvmlClockSm = 1, kNvmlClockMemory = 2 };
enum NvmlSensor : int { kNvmlSensorGpu = 0 };
inline constexpr unsigned kNvmlVersionBytes = 80;

struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};

// Functions of the library; null where the installed driver lacks one.
struct NvmlFunctions {
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  const char* (*error_text)(NvmlReturn) = nullptr;
  NvmlReturn (*driver_version)(char*, unsigned) = nullptr;
  NvmlReturn (*device_by_uuid)(const char*, NvmlDevice*) = nullptr;
  NvmlReturn (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlReturn (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlReturn (*power)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlReturn (*clock_events)(NvmlDevice, unsigned long long*) = nullptr;
  NvmlReturn (*pcie_generation)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*pcie_width)(NvmlDevice, unsigned*) = nullptr;
};

// The library, opened and initialised for as long as it lives.
class NvmlLibrary {
 public:
  // Never throws; reason() tells what went wrong.
  explicit NvmlLibrary(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const std::string& reason() const noexcept { return reason_; }  // empty: it can be used
  const NvmlFunctions& functions() const noexcept { return functions_; }
  std::string error_text(NvmlReturn status) const;

 private:
  void find_functions();

  void* library_ = nullptr;
  bool initialised_ = false;
  NvmlFunctions functions_;
  std::string reason_;
};

// The first of the names that the library has; newer ones come first.
template <typename Function>
void find(void* library, Function& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    function = reinterpret_cast<Function>(find_in_library(library, name));
    if (function != nullptr) return;
  }
}

NvmlLibrary::NvmlLibrary(const std::string& path) {
  try {
    library_ = open_library(path, "NVML cannot be opened");
  } catch (const UnavailableError& error) {
    reason_ = error.what();
    return;
  }
  find_functions();
  if (functions_.init == nullptr || functions_.device_by_uuid == nullptr) {
    reason_ = fmt::format("{} is not NVML, or its version is too old", path);
    return;
  }
  const NvmlReturn status = functions_.init();
  initialised_ = status == kNvmlSuccess;
  if (!initialised_) reason_ = fmt::format("NVML does not start: {}", error_text(status));
}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_ && functions_.shutdown != nullptr) static_cast<void>(functions_.shutdown());
  close_library(library_);
}

void NvmlLibrary::find_functions() {
  NvmlFunctions& f = functions_;
  find(library_, f.init, {"nvmlInit_v2"});
  find(library_, f.shutdown, {"nvmlShutdown"});
  find(library_, f.error_text, {"nvmlErrorString"});
  find(library_, f.driver_version, {"nvmlSystemGetDriverVersion"});
  find(library_, f.device_by_uuid, {"nvmlDeviceGetHandleByUUID"});
  find(library_, f.utilization, {"nvmlDeviceGetUtilizationRates"});
  find(library_, f.clock, {"nvmlDeviceGetClockInfo"});
  find(library_, f.power, {"nvmlDeviceGetPowerUsage"});
  find(library_, f.temperature, {"nvmlDeviceGetTemperature"});
  // The function got its new name with r535.
  find(library_, f.clock_events,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(library_, f.pcie_generation, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  find(library_, f.pcie_width, {"nvmlDeviceGetMaxPcieLinkWidth"});
}

std::string NvmlLibrary::error_text(NvmlReturn status) const {
  const char* const text =
      functions_.error_text == nullptr ? nullptr : functions_.error_text(status);
  return text == nullptr ? fmt::format("NVML error {}", status) : std::string(text);
}

struct Gpu {
  NvmlDevice device = nullptr;
  std::string reason;  // why it cannot be queried; empty: it can
};

// Calls functions of the library. Returns why there is no answer; empty: there is one.
struct Caller {
  const NvmlLibrary& library;
  const std::string& reason;  // why no call can succeed; empty: calls are made

  template <typename Function, typename... Arguments>
  std::string operator()(Function function, const char* name, Arguments... arguments) const {
    if (!reason.empty()) return reason;
    if (function == nullptr) return fmt::format("this driver's NVML has no {}", name);
    const NvmlReturn status = function(arguments...);
    if (status == kNvmlSuccess) return {};
    return fmt::format("{}: {}", name, library.error_text(status));
  }
};

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
