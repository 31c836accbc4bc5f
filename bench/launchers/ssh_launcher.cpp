// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/ssh_launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/joined/joined_devices.h"
#include "bench/launchers/host_world.h"
#include "bench/launchers/launched_run.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {
namespace {

// A host must answer within this time. ssh itself gives up sooner where no host is at the address.
constexpr double kConnect_s = 60;
// How long agents may take to end. One that takes longer ends later, with its connection.
constexpr double kClose_s = 2;

bool is_waiting(const HostLink& link) { return link.lost().empty() && link.view() == nullptr; }

std::vector<HostPlace> all_places(const std::vector<HostSlots>& hosts) {
  return place_ranks(hosts, count_slots(hosts), 0);
}

}  // namespace

CellProcesses processes_of(const RunCell& cell) {
  const bool alone = strategy_traits(cell.strategy).one_process;
  return {alone ? 1 : cell.world_size, alone ? 0 : cell.servers};
}

std::string backend_on(const std::vector<HostSlots>& hosts, const Options& options,
                       const RunCell& cell,
                       const std::function<JoinedHosts::Member(std::size_t)>& member) {
  const HostSlots& first = hosts.front();
  if (strategy_traits(cell.strategy).one_process && cell.world_size > first.slots)
    throw ConfigError(fmt::format(
        "{} is one process: its {} devices are on the first host, but {} has {}; give it more "
        "(HOST:N), or leave out {}",
        cell.strategy, cell.world_size, first.name, counted(first.slots, "slot"), cell.strategy));
  const auto [workers, servers] = processes_of(cell);
  std::vector<JoinedHosts::Member> members;
  for (const HostPlace& place : place_ranks(hosts, workers, servers))
    members.push_back(member(place.host));
  const JoinedHosts joined(members);
  if (!joined.are_several()) return options.backend;
  return backend_over_hosts(options.backend, backend_device(options, cell.servers), joined);
}

SshLauncher::SshLauncher(std::vector<HostSlots> hosts, AgentStart start, std::string port)
    : hosts_(std::move(hosts)), start_(std::move(start)), port_(std::move(port)) {
  for (const HostSlots& host : hosts_) links_.emplace_back(host.name, start_);
  connect(all_places(hosts_));
  for (const HostLink& link : links_) views_.push_back(*link.view());
}

SshLauncher::~SshLauncher() {
  for (HostLink& link : links_) link.close();
  const double limit_s = steady_s() + kClose_s;
  while (!std::ranges::all_of(links_, &HostLink::has_closed) && steady_s() < limit_s) {
    std::vector<pollfd> watched;
    for (const HostLink& link : links_) link.watch(watched);
    ::poll(watched.data(), watched.size(), kLookAtRunMs);
    for (HostLink& link : links_) link.look(steady_s());
  }
}

// Waits for the hosts that these ranks need and that have not answered yet, all at once.
void SshLauncher::connect(const std::vector<HostPlace>& places) {
  std::set<std::size_t> wanted;
  for (const HostPlace& place : places) wanted.insert(place.host);
  const double limit_s = steady_s() + kConnect_s;
  const auto waits = [&](std::size_t host) { return is_waiting(links_[host]); };
  while (std::ranges::any_of(wanted, waits) && !interrupt_requested()) {
    std::vector<pollfd> watched;
    for (const HostLink& link : links_) link.watch(watched);
    ::poll(watched.data(), watched.size(), kLookAtRunMs);
    for (HostLink& link : links_) {
      link.look(steady_s());
      if (!is_waiting(link) || steady_s() < limit_s) continue;
      link.give_up(fmt::format("host {}: it cannot be used: `{} {}` said nothing for {:.3g} s",
                               link.host(), start_.remote_shell, link.host(), kConnect_s));
    }
  }
  std::vector<std::string> lost;
  for (const std::size_t host : wanted) {
    if (!links_[host].lost().empty()) lost.push_back(links_[host].lost());
  }
  if (!lost.empty()) throw CommError(fmt::format("{}", fmt::join(lost, "\n")));
}

// As the ranks of a world with a rank in each slot see them.
void SshLauncher::find_devices(HostDevices& devices) const {
  std::vector<VisibleGpus> visible;
  std::map<std::string, int> cores;  // by mark: two names may stand for one host
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    for (int slot = 0; slot < hosts_[host].slots; ++slot) {
      visible.push_back({slot, view(host).gpus.probe});
    }
    cores[view(host).mark] = view(host).environment.cpu.cores;
  }
  int all_cores = 0;
  for (const auto& [mark, count] : cores) all_cores += count;
  devices.cpu.cores.resize(static_cast<std::size_t>(all_cores));
  std::iota(devices.cpu.cores.begin(), devices.cpu.cores.end(), 0);
  devices.cuda = assign_gpus(visible).world;
}

JoinedHosts::Member SshLauncher::member(std::size_t host) const {
  const HostView& seen = view(host);
  return {seen.name, seen.mark, seen.environment.tcp_congestion_control};
}

// The first host has rank 0, whose environment is that of a joined world's report.
void SshLauncher::describe(report::Environment& environment) const {
  environment = view(0).environment;
  std::vector<JoinedHosts::Member> members;
  for (const HostPlace& place : all_places(hosts_)) members.push_back(member(place.host));
  const JoinedHosts hosts(members);
  environment.hosts = hosts.names();
  environment.tcp_congestion_control = hosts.congestion_control();
}

std::string SshLauncher::backend(const Options& options, const RunCell& cell) const {
  return backend_on(hosts_, options, cell, [this](std::size_t host) { return member(host); });
}

LaunchedRun SshLauncher::run(const TrainingJob& job, const Options& options,
                             const std::function<void()>& tick) {
  const auto [workers, servers] = processes_of(job.cell);
  const auto places = place_ranks(hosts_, workers, servers);
  for (const HostPlace& place : places) {
    HostLink& link = links_[place.host];
    link.look(steady_s());
    // A connection that is gone is made anew, since its host may be back.
    if (!link.lost().empty()) link = HostLink(link.host(), start_);
  }
  connect(places);
  if (interrupt_requested()) return {.interrupted = true};
  const bool one_host = std::ranges::all_of(
      places, [&](const HostPlace& place) { return place.host == places.front().host; });
  auto variables = launched_run_variables(options);
  variables["MASTER_ADDR"] = one_host ? "127.0.0.1" : host_address_of(hosts_.front());
  variables["MASTER_PORT"] = port_;
  std::vector<HostLink*> links;
  for (HostLink& link : links_) links.push_back(&link);
  HostWorld world(std::move(links), places, options.timeout_s);
  world.start(std::move(variables), options.threads_per_device);
  return world.supervise(tick);
}

}  // namespace ddpbench::bench
