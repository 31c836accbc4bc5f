// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
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
constexpr NvmlReturn kNvmlSuccess = 0;

constexpr int kNvmlClockSm = 1, kNvmlClockMemory = 2, kNvmlSensorGpu = 0;
constexpr unsigned kNvmlVersionBytes = 80;

struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};

// The library, initialised for as long as it lives.
class NvmlLibrary {
 public:
  // Never throws; reason() tells what went wrong.
  explicit NvmlLibrary(const std::string& path) {
    try {
      library_ = open_library(path, "NVML cannot be opened");
    } catch (const UnavailableError& error) {
      reason_ = error.what();
      return;
    }
    if (!has("nvmlInit_v2") || !has("nvmlDeviceGetHandleByUUID")) {
      reason_ = fmt::format("{} is not NVML, or its version is too old", path);
      return;
    }
    const NvmlReturn status = function<>("nvmlInit_v2")();
    initialised_ = status == kNvmlSuccess;
    if (!initialised_) reason_ = fmt::format("NVML does not start: {}", error_text(status));
  }
  ~NvmlLibrary() {
    if (initialised_ && has("nvmlShutdown")) function<>("nvmlShutdown")();
  }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const std::string& reason() const noexcept { return reason_; }  // empty: it can be used
  bool has(const char* name) const { return find_in_library(library_, name) != nullptr; }

  // Returns why there is no answer; empty: there is one. REQUIRES: the arguments have the types of
  // the function's parameters.
  template <typename... Arguments>
  std::string call(const char* name, Arguments... arguments) const {
    if (!reason_.empty()) return reason_;
    if (!has(name)) return fmt::format("this driver's NVML has no {}", name);
    const NvmlReturn status = function<Arguments...>(name)(arguments...);
    return status == kNvmlSuccess ? "" : fmt::format("{}: {}", name, error_text(status));
  }

 private:
  template <typename... Arguments>
  using Function = NvmlReturn (*)(Arguments...);
  template <typename... Arguments>
  Function<Arguments...> function(const char* name) const {
    return reinterpret_cast<Function<Arguments...>>(find_in_library(library_, name));
  }
  std::string error_text(NvmlReturn status) const {
    const auto text_of =
        reinterpret_cast<const char* (*)(NvmlReturn)>(find_in_library(library_, "nvmlErrorString"));
    const char* const text = text_of == nullptr ? nullptr : text_of(status);
    return text == nullptr ? fmt::format("NVML error {}", status) : std::string(text);
  }

  void* library_ = nullptr;
  bool initialised_ = false;
  std::string reason_;
};

struct Gpu {
  NvmlDevice device = nullptr;
  std::string reason;  // why it cannot be queried; empty: it can
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
    const std::string why =
        library_.call("nvmlSystemGetDriverVersion", text.data(), kNvmlVersionBytes);
    return told(why, std::string(text.data()));
  }

  GpuSample sample(std::size_t gpu) override {
    GpuSample sample;
    NvmlUtilization load{};
    const std::string no_load = ask(gpu, "nvmlDeviceGetUtilizationRates", &load);
    sample.utilization_ratio = told(no_load, 0.01 * load.gpu);
    sample.sm_clock_mhz = number(gpu, 1.0, "nvmlDeviceGetClockInfo", kNvmlClockSm);
    sample.memory_clock_mhz = number(gpu, 1.0, "nvmlDeviceGetClockInfo", kNvmlClockMemory);
    sample.power_w = number(gpu, 1e-3, "nvmlDeviceGetPowerUsage");
    sample.temperature_celsius = number(gpu, 1.0, "nvmlDeviceGetTemperature", kNvmlSensorGpu);
    // The function got its new name with r535.
    const char* const older = "nvmlDeviceGetCurrentClocksThrottleReasons";
    const char* events = "nvmlDeviceGetCurrentClocksEventReasons";
    if (!library_.has(events) && library_.has(older)) events = older;
    unsigned long long bits = 0;
    const std::string no_events = ask(gpu, events, &bits);
    sample.clock_events = told(no_events, events_of(bits));
    return sample;
  }

  PcieSlot pcie_slot(std::size_t gpu) override {
    return {number(gpu, 1, "nvmlDeviceGetMaxPcieLinkGeneration"),
            number(gpu, 1, "nvmlDeviceGetMaxPcieLinkWidth")};
  }

 private:
  template <typename... Arguments>
  std::string ask(std::size_t gpu, const char* name, Arguments... arguments) const {
    const auto& [device, reason] = gpus_.at(gpu);
    return reason.empty() ? library_.call(name, device, arguments...) : reason;
  }

  // What the function gives as its last result, in units of `unit`.
  template <typename T, typename... Arguments>
  Known<T> number(std::size_t gpu, T unit, const char* name, Arguments... arguments) const {
    unsigned value = 0;
    const std::string why = ask(gpu, name, arguments..., &value);
    return told(why, unit * static_cast<T>(value));
  }

  template <typename T>
  static Known<T> told(const std::string& why, T value) {
    return why.empty() ? Known<T>::of(std::move(value)) : Known<T>::missing(why);
  }

  Gpu find(const std::string& uuid) const {
    Gpu gpu;
    gpu.reason = library_.call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &gpu.device);
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
