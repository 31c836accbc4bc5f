// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/rank_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/math.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/host/host_devices.h"
#include "parallel/comm_backends.h"

namespace ddpbench::bench {
namespace {

constexpr int kMostSlots = 65536;
constexpr std::string_view kSpaces = " \t\r";

// Where an entry stands, for messages: "--hosts", "hosts.txt: line 3".
[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw ConfigError(printable(fmt::format("{}: {}", where, why)));
}

int parse_slots(const std::string& where, std::string_view text) {
  const auto slots = number_in<int>(text);
  if (!slots || *slots < 1 || *slots > kMostSlots) {
    refuse(where, fmt::format("'{}' is not a number of slots from 1 to {}", text, kMostSlots));
  }
  return *slots;
}

// "n[01-03,7]", as Slurm writes it, is n01, n02, n03 and n7.
std::vector<std::string> expanded(const std::string& where, const std::string& entry) {
  const std::size_t open = entry.find('['), close = entry.find(']');
  if (open > close || close == std::string::npos) return {entry};
  std::vector<std::string> names;
  for (const std::string& range : split(entry.substr(open + 1, close - open - 1), ',')) {
    const std::vector<std::string> ends = split(range, '-');
    const auto from = number_in<int>(ends.front()), to = number_in<int>(ends.back());
    if (ends.size() > 2 || !from || !to || *from > *to || *to - *from >= kMostSlots) {
      refuse(where, fmt::format("'{}' is no range of numbers; write one as n[01-04]", range));
    }
    for (int i = 0; i <= *to - *from; ++i) {
      names.push_back(fmt::format("{}{:0{}}{}", entry.substr(0, open), *from + i, ends[0].size(),
                                  entry.substr(close + 1)));
    }
  }
  return names;
}

// Adds "NAME" or "NAME:SLOTS"; `slots` is set where another word says how many. A name goes to the
// remote shell as a word of its own. One that begins with a dash would be an option of it.
void add_host(const std::string& where, std::string_view entry, std::optional<int> slots,
              std::vector<HostSlots>& hosts) {
  static const std::regex kName(R"((\w[\w.-]*@)?\w[\w.-]*)");
  const std::size_t colon = entry.find(':');
  const std::string name(entry.substr(0, colon));
  if (!std::regex_match(name, kName) || std::ranges::count(entry, ':') > 1) {
    refuse(where,
           fmt::format("'{}' is not the name of a host, its IPv4 address, or USER@HOST", entry));
  }
  if (colon != std::string_view::npos) {
    if (slots) refuse(where, fmt::format("'{}' and slots={}: give one of them", entry, *slots));
    slots = parse_slots(where, entry.substr(colon + 1));
  }
  const auto known = std::ranges::find(hosts, name, &HostSlots::name);
  if (known == hosts.end()) {
    hosts.push_back({name, slots.value_or(1)});
  } else {
    known->slots += slots.value_or(1);
  }
}

// A line of a host file without its comment. Open MPI's upper bound, max_slots, is not needed.
void add_line(const std::string& where, std::string line, std::vector<HostSlots>& hosts) {
  std::ranges::replace(line, '=', ' ');
  std::istringstream words(line);
  std::string host, key, value;
  std::optional<int> slots;
  words >> host;
  while (words >> key) {
    if (!(words >> value)) value.clear();
    if (key == "max_slots" || key == "max-slots") continue;
    if (key != "slots" || slots) {
      refuse(where,
             fmt::format("'{}={}': a line has a host, or HOST:N, or HOST slots=N", key, value));
    }
    slots = parse_slots(where, value);
  }
  for (const std::string& name : expanded(where, host)) add_host(where, name, slots, hosts);
}

}  // namespace

std::vector<HostSlots> parse_host_list(const std::string& text) {
  std::vector<HostSlots> hosts;
  constexpr char kSeparator = '\x1f';  // in place of commas that are not within brackets
  std::string entries = text;
  bool within = false;
  for (char& c : entries) {
    within = c == '[' || (within && c != ']');
    if (c == ',' && !within) c = kSeparator;
  }
  for (const std::string& entry : split(entries, kSeparator)) {
    for (const std::string& name : expanded("--hosts", std::string(trimmed(entry, kSpaces)))) {
      add_host("--hosts", name, std::nullopt, hosts);
    }
  }
  return hosts;
}

std::vector<HostSlots> read_host_file(const std::string& path) {
  const std::string text =
      read_file(path, {.what = "host file ", .most_bytes = kMiB, .streams = true});
  std::istringstream lines{std::string(without_byte_order_mark(text))};
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    if (trimmed(line, kSpaces).empty()) continue;
    add_line(fmt::format("{}: line {}", input_name(path), number), line, hosts);
  }
  if (hosts.empty()) throw ConfigError(fmt::format("{}: it lists no host", input_name(path)));
  return hosts;
}

std::string host_address_of(const HostSlots& host) {
  return host.name.substr(host.name.find('@') + 1);  // npos + 1 is 0
}

int count_slots(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

std::vector<std::size_t> place_ranks(const std::vector<HostSlots>& hosts, int workers,
                                     int servers) {
  const int slots = count_slots(hosts);
  if (workers > slots) {
    throw ConfigError(
        fmt::format("{}, but the hosts have {}; list more hosts, or give them more slots (HOST:N)",
                    counted(workers, "device"), counted(slots, "slot")));
  }
  std::vector<std::size_t> places;
  const auto ranks = static_cast<std::size_t>(workers + servers);
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const std::size_t used = places.size() + static_cast<std::size_t>(hosts[host].slots);
    places.resize(std::min(used, ranks), host);
  }
  for (std::size_t next = 0; places.size() < ranks; ++next) places.push_back(next % hosts.size());
  return places;
}

RankHosts::RankHosts(const std::vector<Member>& members) {
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const Member& member = members[rank];
    auto host = std::ranges::find(hosts_, member.mark, &Host::mark);
    if (host == hosts_.end()) {
      const auto same = std::ranges::count(hosts_, member.host, &Host::host);
      hosts_.push_back(
          {member, same == 0 ? member.host : fmt::format("{}#{}", member.host, same + 1)});
      host = hosts_.end() - 1;
    }
    host->ranks.push_back(static_cast<int>(rank));
    host_of_.push_back(static_cast<std::size_t>(host - hosts_.begin()));
  }
}

int RankHosts::index_on_host(int rank) const {
  const std::vector<int>& all = of(rank).ranks;
  return static_cast<int>(std::ranges::find(all, rank) - all.begin());
}

std::vector<std::string> RankHosts::names() const { return mapped(hosts_, &Host::name); }

std::string RankHosts::congestion_control() const {
  const std::string& first = hosts_.at(0).congestion_control;
  const auto count = std::ranges::count(hosts_, first, &Host::congestion_control);
  if (count == std::ssize(hosts_)) return first;
  if (std::ranges::count(hosts_, "", &Host::congestion_control) > 0) return "";
  return joined(hosts_, "; ", [](const Host& host) {
    return fmt::format("{}: {}", host.name, host.congestion_control);
  });
}

std::string RankHosts::list() const {
  return joined(hosts_, ", ", [](const Host& host) {
    return fmt::format("{} ({} {})", host.name, plural(host.ranks.size(), "rank"),
                       short_list(host.ranks));
  });
}

std::string backend_over_hosts(const std::string& wanted, const std::string& device,
                               const RankHosts& hosts) {
  const DeviceKind kind = device_kind(device);
  const std::string engine(backend_between_hosts(kind).name);
  if (wanted != "auto") {
    const CommBackend* const row = find_comm_backend(wanted);
    if (row == nullptr || row->spans_hosts) return wanted;
    throw ConfigError(fmt::format(
        "--backend={}: {} connects processes of one host, but the ranks are on {} hosts: {}. Use "
        "--backend={}",
        wanted, wanted, hosts.count(), hosts.list(), engine));
  }
  std::string why = "this version has none";
  for (const CommBackend& row : comm_backends()) {
    if (row.devices != kind || !row.spans_hosts) continue;
    why = why_no_backend(row, CudaProbe{});
    if (why.empty() || kind == DeviceKind::cuda) return std::string(row.name);
    why = fmt::format("{} is not here: {}", row.name, why);
  }
  throw UnavailableError(
      fmt::format("the ranks are on {} hosts: {}. Between hosts a library moves the data "
                  "(--backend={}), and {}",
                  hosts.count(), hosts.list(), engine, why));
}

CudaProbe gpus_of_world(std::vector<std::pair<int, CudaProbe>> visible, int servers_on_cpu) {
  if (std::ssize(visible) > servers_on_cpu)
    visible.resize(visible.size() - static_cast<std::size_t>(servers_on_cpu));
  CudaProbe world;
  for (std::size_t rank = 0; rank < visible.size(); ++rank) {
    const CudaProbe& probe = visible[rank].second;
    if (!probe.devices.empty()) continue;
    world.reason = fmt::format("rank {}: {}", rank, probe.reason);
    return world;
  }
  world.driver_version = visible.front().second.driver_version;
  world.runtime_version = visible.front().second.runtime_version;
  for (const auto& [number, probe] : visible) {
    const std::size_t index = static_cast<std::size_t>(number) % probe.devices.size();
    const CudaDeviceInfo& gpu = probe.devices[index];
    if (std::ranges::count(world.devices, gpu.uuid, &CudaDeviceInfo::uuid) > 0) continue;
    world.devices.push_back(gpu);
    world.devices.back().ordinal = static_cast<int>(world.devices.size()) - 1;
  }
  return world;
}

void add_unknown_gpus(report::Environment& environment, const std::vector<report::GpuInfo>& gpus) {
  std::vector<report::GpuInfo>& known = environment.gpus;
  for (const report::GpuInfo& gpu : gpus) {
    if (std::ranges::count(known, gpu.uuid, &report::GpuInfo::uuid) == 0) known.push_back(gpu);
  }
}

bool is_engine_of_launcher(const std::string& backend) {
  const CommBackend* const row = find_comm_backend(backend);
  return row != nullptr && !row->launcher.empty();
}

}  // namespace ddpbench::bench
