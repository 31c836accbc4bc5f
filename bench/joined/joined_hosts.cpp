// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "bench/host/host_devices.h"
#include "bench/host/host_network.h"
#include "bench/host/terminal.h"
#include "bench/plan/run_plan.h"
#include "bench/rank/rank_devices.h"
#include "parallel/comm_backends.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

// host_mark() begins with what is equal on all of one machine.
std::string_view machine_of(std::string_view mark) { return mark.substr(0, mark.find(' ')); }

}  // namespace

JoinedHosts::JoinedHosts(const std::vector<Member>& members) {
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const Member& member = members[rank];
    auto host = std::ranges::find(hosts_, member.mark, &Host::mark);
    if (host == hosts_.end()) {
      const auto same = std::ranges::count(hosts_, member.host, &Host::own_name);
      hosts_.push_back(
          {.own_name = member.host,
           .name = same == 0 ? member.host : fmt::format("{}#{}", member.host, same + 1),
           .mark = member.mark,
           .congestion_control = member.congestion_control});
      host = hosts_.end() - 1;
    }
    host->ranks.push_back(static_cast<int>(rank));
    host_of_.push_back(static_cast<int>(host - hosts_.begin()));
  }
}

const std::vector<int>& JoinedHosts::ranks(int host) const {
  return hosts_.at(static_cast<std::size_t>(host)).ranks;
}

int JoinedHosts::index_on_host(int rank) const {
  const std::vector<int>& all = ranks(of(rank));
  return static_cast<int>(std::ranges::find(all, rank) - all.begin());
}

const std::string& JoinedHosts::name(int rank) const {
  return hosts_.at(static_cast<std::size_t>(of(rank))).name;
}

std::vector<std::string> JoinedHosts::names() const {
  std::vector<std::string> all;
  for (const Host& host : hosts_) all.push_back(host.name);
  return all;
}

std::string JoinedHosts::congestion_control() const {
  std::vector<std::string> each;
  for (const Host& host : hosts_) each.push_back(host.congestion_control);
  return congestion_control_of_hosts(names(), each);
}

std::string JoinedHosts::words(int rank) const {
  return are_several() ? fmt::format("rank {} on {}", rank, name(rank))
                       : fmt::format("rank {}", rank);
}

std::string JoinedHosts::list() const {
  std::vector<std::string> each;
  for (const Host& host : hosts_) {
    each.push_back(fmt::format("{} ({} {})", host.name, plural(host.ranks.size(), "rank"),
                               short_list(host.ranks)));
  }
  std::string text = fmt::format("{}", fmt::join(each, ", "));
  const bool one_machine = std::ranges::all_of(hosts_, [&](const Host& host) {
    return machine_of(host.mark) == machine_of(hosts_.front().mark);
  });
  if (are_several() && one_machine) {
    text +=
        "; they are on one machine, but cannot map each other's memory: they have PID or user "
        "namespaces of their own (containers), or run as several users";
  }
  return text;
}

std::string backend_over_hosts(const std::string& wanted, const std::string& device,
                               const JoinedHosts& hosts) {
  const DeviceKind kind = device_kind(device);
  const auto spans = [kind](const CommBackend& row) {
    return row.devices == kind && row.spans_hosts;
  };
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
    if (!spans(row)) continue;
    why = why_no_backend(row, CudaProbe{});
    if (why.empty() || kind == DeviceKind::cuda) return std::string(row.name);
    why = fmt::format("{} is not here: {}", row.name, why);
  }
  throw UnavailableError(
      fmt::format("the ranks are on {} hosts: {}. Between hosts a library moves the data "
                  "(--backend={}), and {}",
                  hosts.count(), hosts.list(), engine, why));
}

void name_hosts(const JoinedHosts& hosts, report::Report& report) {
  if (!hosts.are_several()) return;
  report.environment.hosts = hosts.names();
  report.environment.tcp_congestion_control = hosts.congestion_control();
  const auto name_error = [&](std::optional<report::ErrorInfo>& error) {
    if (error && error->rank) error->host = hosts.name(*error->rank);
  };
  name_error(report.error);
  for (report::Run& run : report.runs) {
    name_error(run.error);
    for (report::DeviceRow& device : run.devices) device.host = hosts.name(device.process_rank);
  }
}

namespace {

// Null for a rank that communicates with none.
const CommBackend* world_backend(const std::string& name,
                                 const launch::RankEnvironment& environment) {
  return environment.world_size == 1 ? nullptr : find_comm_backend(name);
}

// Null where the ranks need none.
const comm::CommModule* world_module(const std::string& name,
                                     const launch::RankEnvironment& environment) {
  const CommBackend* const backend = world_backend(name, environment);
  return backend && !backend->module.empty() ? &backend_module(*backend) : nullptr;
}

}  // namespace

bool may_hang(const std::string& backend, const launch::RankEnvironment& environment) {
  const CommBackend* const row = world_backend(backend, environment);
  return row && !row->launcher.empty();
}

void prepare_engine(const DevicePlan& devices, const std::string& interface,
                    const launch::RankEnvironment& environment, const JoinedHosts& hosts) {
  RankNetwork network{.on_one_host = !hosts.are_several(), .ranks = environment.world_size};
  if (hosts.are_several() && !interface.empty()) {
    network.interface = find_interface(interface).name;
  }
  if (environment.world_size > 1 && !launch::environment_variable("OMPI_MCA_btl")) {
    const std::vector<int>& here = hosts.ranks(hosts.of(environment.rank));
    const int count = static_cast<int>(here.size());
    const std::string warning = shared_memory_warning(devices.backend, count, free_shared_memory());
    if (!warning.empty() && here.front() == environment.rank) say_error("{}\n", warning);
  }
  prepare_rank(devices, environment.rank, network);
  const comm::CommModule* const module = world_module(devices.backend, environment);
  if (module == nullptr) return;
  launch::keep_environment();  // a report and the reference take it meanwhile
  module->prepare();
}

void finish_engine(const std::string& backend, const launch::RankEnvironment& environment,
                   const WorldOptions& options) {
  if (const comm::CommModule* const module = world_module(backend, environment)) {
    module->finish_preparing(options);
  }
}

}  // namespace ddpbench::bench
