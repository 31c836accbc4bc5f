// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/rank_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "bench/host/host_devices.h"
#include "parallel/comm_backends.h"

namespace ddpbench::bench {
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

std::vector<std::string> RankHosts::names() const {
  std::vector<std::string> all;
  for (const Host& host : hosts_) all.push_back(host.name);
  return all;
}

std::string RankHosts::congestion_control() const {
  std::vector<std::string> each;
  bool are_alike = true;
  for (const Host& host : hosts_) {
    if (host.congestion_control.empty()) return "";
    are_alike = are_alike && host.congestion_control == hosts_.front().congestion_control;
    each.push_back(fmt::format("{}: {}", host.name, host.congestion_control));
  }
  return are_alike ? hosts_.at(0).congestion_control : fmt::format("{}", fmt::join(each, "; "));
}

std::string RankHosts::list() const {
  std::vector<std::string> each;
  for (const Host& host : hosts_) {
    each.push_back(fmt::format("{} ({} {})", host.name, plural(host.ranks.size(), "rank"),
                               short_list(host.ranks)));
  }
  return fmt::format("{}", fmt::join(each, ", "));
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
