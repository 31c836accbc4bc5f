// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/gpu_warnings.h"

#include <fmt/format.h>

namespace ddpbench::report {
namespace {

// From which share of the samples on it is worth a warning (docs/metrics.md).
constexpr double kLeastShare = 0.05;

struct Reason {
  const char* key;
  const char* words;
};
// Idleness and clocks that somebody set are no throttling. A hardware slowdown comes with its cause
// where the driver knows it.
constexpr Reason kReasons[] = {
    {"sw_power_cap", "its power limit"},
    {"sw_thermal_slowdown", "heat (the driver's limit)"},
    {"hw_thermal_slowdown", "heat (the hardware's limit)"},
    {"hw_power_brake_slowdown", "the host's power brake"},
    {"hw_slowdown", "the hardware's protection"},
    {"sync_boost", "another GPU of its group"},
};

double share_of(const DeviceRow& device, const char* key) {
  const auto& telemetry = device.gpu_telemetry.value;
  if (!telemetry || !telemetry->clock_event_ratios.value) return 0;
  const auto found = telemetry->clock_event_ratios.value->find(key);
  return found == telemetry->clock_event_ratios.value->end() ? 0 : found->second;
}

}  // namespace

std::vector<std::string> gpu_warnings(const Report& report) {
  std::vector<std::string> warnings;
  for (const Reason& reason : kReasons) {
    std::size_t runs = 0;
    double most = 0;
    std::string worst;
    for (const Run& run : report.runs) {
      bool here = false;
      for (const DeviceRow& device : run.devices) {
        const double share = share_of(device, reason.key);
        here = here || share >= kLeastShare;
        if (share <= most) continue;
        most = share;
        worst = device.device;
      }
      if (here) ++runs;
    }
    if (runs == 0) continue;
    warnings.push_back(fmt::format(
        "in {} of {} runs a GPU's clocks were held down by {}, at worst on {} in {:.0f} % of the "
        "samples",
        runs, report.runs.size(), reason.words, worst, 100 * most));
  }
  return warnings;
}

}  // namespace ddpbench::report
