// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/machine_snapshot.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/clock.h"
#include "bench/host/system_files.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using report::MachineSnapshot;

// Reads the first line of /proc/stat (proc(5)): ticks of all processors since boot.
void read_processor_time(const std::string& root, MachineSnapshot& snapshot) {
  enum Field { user, nice, system, idle, iowait, irq, softirq, steal, kFields };
  std::ifstream file(root + "/proc/stat");
  std::string name;
  std::array<double, kFields> ticks{};
  file >> name;
  for (double& value : ticks) file >> value;
  if (!file || name != "cpu") return;
  const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  // The time of guests is part of user and nice.
  snapshot.busy_s =
      (ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq]) / per_second;
  snapshot.stolen_s = ticks[steal] / per_second;
  snapshot.all_s = std::accumulate(ticks.begin(), ticks.end(), 0.0) / per_second;
}

// The directories "cpu0", "cpu1", ... of sysfs.
std::vector<fs::path> processors(const std::string& root) {
  std::vector<fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(root + "/sys/devices/system/cpu", absent)) {
    const std::string name = entry.path().filename();
    const bool numbered = name.size() > 3 && name.starts_with("cpu") &&
                          name.find_first_not_of("0123456789", 3) == std::string::npos;
    if (numbered) found.push_back(entry.path());
  }
  return found;
}

void read_processors(const std::string& root, MachineSnapshot& snapshot) {
  double megahertz = 0;
  int told = 0;
  for (const fs::path& processor : processors(root)) {
    if (const auto khz = first_number(processor / "cpufreq/scaling_cur_freq")) {
      megahertz += static_cast<double>(*khz) / 1000;
      ++told;
    }
    const auto throttles = first_number(processor / "thermal_throttle/core_throttle_count");
    if (throttles) snapshot.thermal_throttles = snapshot.thermal_throttles.value_or(0) + *throttles;
  }
  if (told > 0) snapshot.cpu_frequency_mhz = megahertz / told;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

MachineSnapshot read_machine_counters(const std::string& root) {
  MachineSnapshot snapshot;
  read_processor_time(root, snapshot);
  read_processors(root, snapshot);
  snapshot.swapped_in_pages = number_after("pswpin", root + "/proc/vmstat");
  if (const auto usec = number_after("throttled_usec", root + "/sys/fs/cgroup/cpu.stat")) {
    snapshot.quota_throttled_s = 1e-6 * static_cast<double>(*usec);
  }
  return snapshot;
}

MachineSnapshot take_machine_snapshot() {
  MachineSnapshot snapshot = read_machine_counters("");
  snapshot.wall_s = steady_s();
  double busy_s = 0;
  std::uint64_t faults = 0, switches = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(who, &usage) != 0) return snapshot;
    busy_s += seconds(usage.ru_utime) + seconds(usage.ru_stime);
    faults += static_cast<std::uint64_t>(usage.ru_majflt);
    switches += static_cast<std::uint64_t>(usage.ru_nivcsw);
  }
  snapshot.own_busy_s = busy_s;
  snapshot.own_major_page_faults = faults;
  snapshot.own_involuntary_switches = switches;
  return snapshot;
}

}  // namespace ddpbench::bench
