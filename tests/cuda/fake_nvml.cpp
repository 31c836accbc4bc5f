// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A library that behaves as NVML does, for machines without a driver. It is declared independently
// of kernels/runtime/cuda/nvml_monitor.cpp, as the real one is. It is built three times:
//   (plain)             reports everything
//   FAKE_NVML_OLD       an old driver: it lacks some functions and has another's old name
//   FAKE_NVML_REFUSES   a virtual GPU that can be found but supports nothing
//
// There are GPU-a to GPU-d. Every query of the load moves on to the next figures.
#include <cstring>

namespace {

enum { kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6 };

struct FakeGpu {
  const char* uuid;
};
FakeGpu gpus[] = {{"GPU-a"}, {"GPU-b"}, {"GPU-c"}, {"GPU-d"}};

constexpr unsigned kScript = 4;
constexpr unsigned kLoad[kScript] = {0, 90, 100, 95};
constexpr unsigned kSmClock[kScript] = {345, 1980, 1755, 1980};
// Idle; then free; then the power cap; then the power cap and a reason of a future driver.
constexpr unsigned long long kReasons[kScript] = {0x1, 0x0, 0x4, 0x4 | 0x40000000};

int starts = 0;
unsigned looks = 0;

unsigned at() { return (looks + kScript - 1) % kScript; }

#ifdef FAKE_NVML_REFUSES
constexpr int kOutcome = kNotSupported;
#else
constexpr int kOutcome = kSuccess;
#endif

template <typename T>
int put(T* to, T value) {
  if (starts <= 0) return kUninitialized;
  if (kOutcome == kSuccess) *to = value;
  return kOutcome;
}

}  // namespace

#define FAKE_API extern "C" __attribute__((visibility("default")))

FAKE_API int fake_nvml_starts() { return starts; }

FAKE_API int nvmlInit_v2() {
  ++starts;
  return kSuccess;
}
FAKE_API int nvmlShutdown() {
  --starts;
  return kSuccess;
}
FAKE_API const char* nvmlErrorString(int status) {
  return status == kNotSupported ? "Not Supported" : status == kNotFound ? "Not Found" : "Other";
}
FAKE_API int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.65.06", length);
  return kSuccess;
}
FAKE_API int nvmlDeviceGetHandleByUUID(const char* uuid, FakeGpu** gpu) {
  for (FakeGpu& candidate : gpus) {
    if (std::strcmp(candidate.uuid, uuid) != 0) continue;
    *gpu = &candidate;
    return kSuccess;
  }
  return kNotFound;
}

struct FakeLoad {
  unsigned gpu, memory;
};
FAKE_API int nvmlDeviceGetUtilizationRates(FakeGpu*, FakeLoad* load) {
  ++looks;
  return put(load, {kLoad[at()], 10});
}
FAKE_API int nvmlDeviceGetClockInfo(FakeGpu*, int clock, unsigned* mhz) {
  if (clock != 1 && clock != 2) return kInvalidArgument;
  return put(mhz, clock == 1 ? kSmClock[at()] : 3201U);
}
FAKE_API int nvmlDeviceGetTemperature(FakeGpu*, int sensor, unsigned* celsius) {
  return sensor == 0 ? put(celsius, 41U + at()) : int{kInvalidArgument};
}

#ifdef FAKE_NVML_OLD
FAKE_API int nvmlDeviceGetCurrentClocksThrottleReasons(FakeGpu*, unsigned long long* reasons) {
  return put(reasons, kReasons[at()]);
}
#else
FAKE_API int nvmlDeviceGetCurrentClocksEventReasons(FakeGpu*, unsigned long long* reasons) {
  return put(reasons, kReasons[at()]);
}
FAKE_API int nvmlDeviceGetPowerUsage(FakeGpu*, unsigned* milliwatts) {
  return put(milliwatts, 100500U + 100000U * at());
}
FAKE_API int nvmlDeviceGetMaxPcieLinkGeneration(FakeGpu*, unsigned* generation) {
  return put(generation, 5U);
}
FAKE_API int nvmlDeviceGetMaxPcieLinkWidth(FakeGpu*, unsigned* width) { return put(width, 16U); }
#endif
