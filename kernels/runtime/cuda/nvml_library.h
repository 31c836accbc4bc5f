// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of NVML's binary interface that is used here, and its library.
//
// It is written out because nvml.h would add nothing but a package to install: the library comes
// with the driver and is opened by name. NVML keeps what it once exported. The numbers and layouts
// below are those of the NVML API reference (r535 to r580).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ddpbench::cuda {

struct NvmlDeviceOpaque;
using NvmlDevice = NvmlDeviceOpaque*;
using NvmlReturn = int;
inline constexpr NvmlReturn kNvmlSuccess = 0, kNvmlInvalidArgument = 2, kNvmlNotSupported = 3;

enum NvmlClock : int { kNvmlClockSm = 1, kNvmlClockMemory = 2 };
enum NvmlSensor : int { kNvmlSensorGpu = 0 };
enum NvmlRemote : int { kNvmlRemoteGpu = 0, kNvmlRemoteSwitch = 2 };
enum NvmlLevel : int {
  kNvmlLevelInternal = 0,
  kNvmlLevelSingle = 10,
  kNvmlLevelMultiple = 20,
  kNvmlLevelHostBridge = 30,
  kNvmlLevelNode = 40,
  kNvmlLevelSystem = 50,
};
inline constexpr unsigned kNvmlMostLinks = 18;
inline constexpr unsigned kNvmlVersionBytes = 80;

struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};

struct NvmlPci {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(offsetof(NvmlPci, domain) == 16 && sizeof(NvmlPci) == 68);

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
  NvmlReturn (*pci)(NvmlDevice, NvmlPci*) = nullptr;
  NvmlReturn (*pcie_generation)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*pcie_width)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*link_state)(NvmlDevice, unsigned, int*) = nullptr;
  NvmlReturn (*link_version)(NvmlDevice, unsigned, unsigned*) = nullptr;
  NvmlReturn (*link_remote_type)(NvmlDevice, unsigned, int*) = nullptr;
  NvmlReturn (*link_remote_pci)(NvmlDevice, unsigned, NvmlPci*) = nullptr;
  NvmlReturn (*common_ancestor)(NvmlDevice, NvmlDevice, int*) = nullptr;
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

}  // namespace ddpbench::cuda
