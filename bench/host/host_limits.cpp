// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_limits.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "parallel/comm/store/tcp_store_protocol.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;

// The number at the beginning of a file of the kernel; nothing where it is absent or no number, as
// a limit of a control group that is "max".
std::optional<std::uint64_t> first_number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// The number behind `word` in the first line that begins with both: 12 for "pswpin" and the line
// "pswpin 12".
std::optional<std::uint64_t> number_after(std::string_view word, const fs::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t value = 0;
    if (words >> first >> value && first == word) return value;
  }
  return std::nullopt;
}

struct ControlGroup {
  std::string name;    // below the root, "/jobs/7"; the root's is "/"
  fs::path directory;  // of its files
};

// From this process's own group up to the root. Groups that are not visible from here, as those
// above a container, are left out. `controller`: of version 1; empty: version 2.
std::vector<ControlGroup> control_groups(const std::string& root,
                                         const std::string& controller = "") {
  fs::path path;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/jobs/7"
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3 || !std::ranges::count(split(parts[1], ','), controller)) continue;
    path = fs::path(line.substr(parts[0].size() + parts[1].size() + 2)).relative_path();
  }
  std::vector<ControlGroup> groups;
  for (;; path = path.parent_path()) {
    const fs::path directory = fs::path(root + "/sys/fs/cgroup") / controller / path;
    if (is_folder(directory)) groups.push_back({("/" / path).string(), directory});
    if (path.empty()) return groups;
  }
}

// Those of both versions: either may limit the CPU.
std::vector<ControlGroup> cpu_groups(const std::string& root) {
  std::vector<ControlGroup> groups = control_groups(root);
  std::ranges::move(control_groups(root, "cpu"), std::back_inserter(groups));
  return groups;
}

std::optional<std::uint64_t> memory_limit_of(const ControlGroup& group) {
  return first_number(group.directory / "memory.max");
}

// What the group's processes use, without pages of files that the kernel drops where memory is
// short.
std::uint64_t memory_used_by(const ControlGroup& group) {
  const auto used = first_number(group.directory / "memory.current").value_or(0);
  const auto cached = number_after("inactive_file", group.directory / "memory.stat").value_or(0);
  return used - std::min(used, cached);
}

std::optional<std::uint64_t> resource_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Reads cpu.max: "<quota> <period>" in microseconds, or "max <period>". Version 1 has a file for
// each, and a quota of -1 is none.
std::optional<double> cpu_quota(const fs::path& group) {
  std::ifstream both(group / "cpu.max"), one(group / "cpu.cfs_quota_us"),
      other(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  const bool is_told = both >> quota >> period || (one >> quota && other >> period);
  if (!is_told || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// The time for which quotas have stopped the group, in seconds. Version 1 has nanoseconds.
double throttled_s(const fs::path& group) {
  const fs::path file = group / "cpu.stat";
  return 1e-6 * static_cast<double>(number_after("throttled_usec", file).value_or(0)) +
         1e-9 * static_cast<double>(number_after("throttled_time", file).value_or(0));
}

template <typename T>
void tighten(std::optional<T>& limit, const std::optional<T>& other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// Threads that a process starts after its memory was checked map stacks of 8 MiB. They fill little
// of them, so stacks count against an address space alone.
constexpr std::uint64_t kThreadSpaceBytes = std::uint64_t{96} << 20;

// Reads /proc/self/statm: its first number is the size of the address space in pages.
std::optional<std::uint64_t> address_space_left() {
  const auto limit = resource_limit(RLIMIT_AS);
  const auto used_pages = first_number("/proc/self/statm");
  if (!limit || !used_pages) return std::nullopt;
  const std::uint64_t used = *used_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return *limit - std::min(*limit, used + kThreadSpaceBytes);
}

// Reads the first line of /proc/stat (proc(5)): ticks of all processors since boot.
void read_processor_time(const std::string& root, report::MachineSnapshot& snapshot) {
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

// Reads the directories "cpu0", "cpu1", ... of sysfs. Others there have no such files.
void read_processors(const std::string& root, report::MachineSnapshot& snapshot) {
  double megahertz = 0;
  int told = 0;
  std::error_code absent;
  for (const auto& processor : fs::directory_iterator(root + "/sys/devices/system/cpu", absent)) {
    if (const auto khz = first_number(processor.path() / "cpufreq/scaling_cur_freq")) {
      megahertz += static_cast<double>(*khz) / 1000;
      ++told;
    }
    const auto throttles = first_number(processor.path() / "thermal_throttle/core_throttle_count");
    if (throttles) snapshot.thermal_throttles = snapshot.thermal_throttles.value_or(0) + *throttles;
  }
  if (told > 0) snapshot.cpu_frequency_mhz = megahertz / told;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::string text_of(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return text.data();
}

}  // namespace

MemoryLimit memory_limit(const HostLimits& limits) {
  const std::string host = host_name();
  const std::uint64_t total = physical_memory_bytes();
  MemoryLimit least{.bytes = std::min(total, limits.host_available_bytes.value_or(total)),
                    .pool = host};
  // The pool follows from the limits alone. What is left changes while ranks start, and ranks that
  // share memory must agree that they do.
  if (limits.memory_bytes && *limits.memory_bytes < total) {
    // A control group's path is relative to its namespace.
    std::error_code none;
    const fs::path space = fs::read_symlink("/proc/self/ns/cgroup", none);
    least.bytes = std::min(least.bytes, limits.memory_left_bytes.value_or(*limits.memory_bytes));
    least.pool = fmt::format("{} {} {}", host, space.string(), limits.memory_group);
  }
  const auto own = address_space_left();
  if (own && *own < least.bytes) {
    least = {*own, fmt::format("{} process {}", host, ::getpid()), true};
  }
  return least;
}

void spare_address_space() {
  if (resource_limit(RLIMIT_AS)) ::mallopt(M_ARENA_MAX, 1);
}

HostLimits read_host_limits(const std::string& root) {
  HostLimits limits{.open_files = resource_limit(RLIMIT_NOFILE),
                    .locked_memory_bytes = resource_limit(RLIMIT_MEMLOCK),
                    .processes = resource_limit(RLIMIT_NPROC),
                    .threads = first_number("/proc/sys/kernel/threads-max")};
  for (const ControlGroup& group : cpu_groups(root)) {
    tighten(limits.cpu_quota, cpu_quota(group.directory));
  }
  for (const ControlGroup& group : control_groups(root)) {
    const auto limit = memory_limit_of(group);
    if (!limit) continue;
    // The outer one of equal limits counts, because more processes share it.
    if (!limits.memory_bytes || *limit <= *limits.memory_bytes) {
      limits.memory_bytes = limit;
      limits.memory_group = group.name;
    }
    const std::uint64_t used = memory_used_by(group);
    tighten(limits.memory_left_bytes, std::optional(*limit - std::min(*limit, used)));
  }
  if (const auto kib = number_after("MemAvailable:", root + "/proc/meminfo")) {
    limits.host_available_bytes = *kib << 10;
  }
  return limits;
}

std::optional<std::uint64_t> peak_rss_bytes() {
  const auto kib = number_after("VmHWM:", "/proc/self/status");
  return kib ? std::optional(*kib << 10) : std::nullopt;
}

void reset_peak_rss() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // proc(5)
}

CpuTopology read_usable_cpu(const std::string& root) {
  CpuTopology cpu = read_cpu_topology();
  const auto cores = static_cast<double>(cpu.cores.size());
  const double quota = read_host_limits(root).cpu_quota.value_or(cores);
  cpu.cores.resize(static_cast<std::size_t>(std::clamp(quota, 1.0, cores)));
  return cpu;
}

MemoryKills read_memory_kills(const std::string& root) {
  const std::vector<ControlGroup> groups = control_groups(root);
  std::optional<std::uint64_t> own;
  if (!groups.empty()) own = number_after("oom_kill", groups.front().directory / "memory.events");
  return {own ? own : number_after("oom_kill", root + "/proc/vmstat"), own.has_value()};
}

std::string memory_kill_words(const MemoryKills& before, const MemoryKills& after,
                              const std::string& root) {
  if (!before.count || !after.count || *after.count <= *before.count) return "";
  std::string limited;
  for (const ControlGroup& group : control_groups(root)) {
    const auto limit = memory_limit_of(group);
    if (after.of_group && limit && limited.empty())
      limited = fmt::format(": the control group {} may use {} bytes", group.name, *limit);
  }
  return fmt::format(
      "the kernel ended {} because memory ran out{}; use a smaller batch (--batch-size), fewer "
      "devices, or give it more memory",
      after.of_group ? "it" : "a process of this machine meanwhile, probably this one,", limited);
}

report::MachineSnapshot read_machine_counters(const std::string& root) {
  report::MachineSnapshot snapshot;
  read_processor_time(root, snapshot);
  read_processors(root, snapshot);
  snapshot.swapped_in_pages = number_after("pswpin", root + "/proc/vmstat");
  for (const ControlGroup& group : cpu_groups(root)) {
    snapshot.quota_throttled_s =
        std::max(snapshot.quota_throttled_s.value_or(0), throttled_s(group.directory));
  }
  return snapshot;
}

report::MachineSnapshot take_machine_snapshot() {
  report::MachineSnapshot snapshot = read_machine_counters("");
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

std::string host_name() {
  utsname system{};
  return ::uname(&system) == 0 ? system.nodename : "unknown";
}

bool is_address(const std::string& text) {
  in_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

Interface find_interface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw ConfigError(fmt::format("--interface={}: the interfaces of this host cannot be read: {}",
                                  interface, std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, &::freeifaddrs);
  std::vector<std::string> known;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, each->ifa_addr, sizeof address);
    const std::string text = text_of(address);
    if (interface == each->ifa_name || interface == text) return {each->ifa_name, text};
    known.push_back(fmt::format("{} ({})", each->ifa_name, text));
  }
  throw ConfigError(
      fmt::format("--interface={}: this host has no such interface or address; it "
                  "has {}",
                  interface, fmt::join(known, ", ")));
}

// Connecting a datagram socket only chooses the way.
std::string address_towards(const std::string& host, double timeout_s) {
  constexpr std::uint16_t kAnyPort = 9;
  sockaddr_in address = comm::ipv4_address(host, timeout_s);
  address.sin_port = htons(kAnyPort);
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  socklen_t length = sizeof own;
  const bool known =
      socket &&
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  if (!known) {
    throw CommError(
        fmt::format("no way leads from this host to {}: {}; name the interface: "
                    "--interface=NAME",
                    host, std::strerror(errno)));
  }
  return text_of(own);
}

std::string tcp_congestion_control() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  file >> name;
  return name;
}

}  // namespace ddpbench::bench
