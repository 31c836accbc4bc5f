// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/ssh_launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
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

// Throws what a host says, with its name, where it says that it cannot.
void throw_refusal(const std::string& host, const std::string& error, int exit_code) {
  if (error.empty()) return;
  const std::string message = fmt::format("host {}: {}", host, error);
  if (exit_code == UnavailableError("").exit_code()) throw UnavailableError(message);
  if (exit_code == CommError("").exit_code()) throw CommError(message);
  throw ConfigError(message);
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

JoinedHosts SshLauncher::hosts_of(const std::vector<HostPlace>& places) const {
  std::vector<JoinedHosts::Member> members;
  for (const HostPlace& place : places) members.push_back(member(place.host));
  return JoinedHosts(members);
}

// The first host has rank 0, whose environment is that of a joined world's report.
void SshLauncher::describe(report::Environment& environment) const {
  environment = view(0).environment;
  const JoinedHosts hosts = hosts_of(all_places(hosts_));
  environment.hosts = hosts.names();
  environment.tcp_congestion_control = hosts.congestion_control();
}

std::string SshLauncher::backend(const Options& options, const RunCell& cell) const {
  return backend_on(hosts_, options, cell, [this](std::size_t host) { return member(host); });
}

// A reference has a rank on each host, and no world.
std::vector<HostPlace> SshLauncher::places_of(const TrainingJob& job) const {
  if (!job.is_reference()) {
    const auto [workers, servers] = processes_of(job.cell);
    return place_ranks(hosts_, workers, servers);
  }
  std::vector<HostPlace> places(hosts_.size());
  for (std::size_t host = 0; host < places.size(); ++host) places[host].host = host;
  return places;
}

bool SshLauncher::oversubscribes(const TrainingJob& job) const {
  const std::vector<RankPlan> ranks = plan_strategy(strategy_config(job)).ranks;
  const std::vector<HostPlace> places = places_of(job);
  std::map<std::string, std::size_t> devices;  // by mark
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    devices[view(places[rank].host).mark] += std::max<std::size_t>(1, ranks[rank].replicas.size());
  }
  const auto threads = static_cast<std::size_t>(job.threads_per_device);
  return std::ranges::any_of(places, [&](const HostPlace& place) {
    const HostView& host = view(place.host);
    return devices.at(host.mark) * threads > static_cast<std::size_t>(host.environment.cpu.cores);
  });
}

// Waits for what the host answers. Nothing when the user interrupts; throws where the host is lost.
template <typename Word>
std::optional<Word> SshLauncher::await(HostLink& link) {
  while (!interrupt_requested()) {
    link.look(steady_s());
    if (!link.lost().empty()) throw CommError(link.lost());
    while (auto word = link.next()) {
      if (auto* const found = std::get_if<Word>(&*word)) return std::move(*found);
    }
    std::vector<pollfd> watched;
    link.watch(watched);
    ::poll(watched.data(), watched.size(), kLookAtRunMs);
  }
  return std::nullopt;
}

// Waits for what the host has for the runs, which was asked for. Empty when the user interrupts.
HostInputs SshLauncher::take_inputs(HostLink& link) {
  HostInputs inputs = await<HostInputs>(link).value_or(HostInputs{});
  throw_refusal(link.host(), inputs.error, inputs.exit_code);
  return inputs;
}

data::DatasetInfo SshLauncher::share_inputs(const Options& options) {
  settings_ = launched_run_text(options);
  for (HostLink& link : links_) link.send(AgentInputs{settings_});
  std::vector<HostInputs> all;
  for (HostLink& link : links_) {
    all.push_back(take_inputs(link));
    if (interrupt_requested()) throw Interrupted();
    for (const auto& [what, hash] : all.back().contents) {
      const std::string& first = all.front().contents.at(what);
      if (hash == first) continue;
      throw ConfigError(fmt::format(
          "{} on host {} is not that on {}: its content has hash {}, not {}; give all hosts the "
          "same files",
          what, link.host(), links_.front().host(), hash, first));
    }
  }
  return all.front().dataset;
}

bool SshLauncher::all_there() {
  for (HostLink& link : links_) link.look(steady_s());
  return std::ranges::all_of(links_, [](const HostLink& link) { return link.lost().empty(); });
}

report::MachineSnapshot SshLauncher::snapshot() {
  HostLink& first = links_.front();
  if (!first.lost().empty()) return {};
  first.send(AgentLook{});
  try {
    return await<HostLoad>(first).value_or(HostLoad{}).snapshot;
  } catch (const CommError&) {  // the run that it frames will say so
    return {};
  }
}

// What each host is to start, without variables.
std::vector<AgentRun> SshLauncher::orders(const TrainingJob& job,
                                          const std::vector<HostPlace>& places) const {
  const std::vector<RankPlan> ranks = plan_strategy(strategy_config(job)).ranks;
  std::vector<AgentRun> all(hosts_.size());
  std::map<std::string, int> on_machine;  // devices so far, by mark
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    AgentRun::Process process;
    process.number = job.is_reference() ? 0 : static_cast<int>(rank);
    process.devices = ranks.at(static_cast<std::size_t>(process.number)).replicas;
    if (process.devices.empty()) process.devices = {process.number};  // a server's
    int& count = on_machine[view(places[rank].host).mark];
    for (std::size_t i = 0; i < process.devices.size(); ++i) process.places.push_back(count++);
    process.variables["RANK"] = std::to_string(process.number);
    process.variables["LOCAL_RANK"] = std::to_string(places[rank].local_rank);
    all[places[rank].host].processes.push_back(std::move(process));
  }
  for (std::size_t host = 0; host < all.size(); ++host) {
    all[host].machine_devices = on_machine[view(host).mark];
  }
  return all;
}

// The variables by which the ranks of a world find each other, at a store of the first host's.
std::map<std::string, std::string> SshLauncher::meeting(const TrainingJob& job,
                                                        std::size_t processes, bool one_host) {
  std::map<std::string, std::string> variables = {
      {"DDPBENCH_LAUNCHER", "ddpbench"},
      {"DDPBENCH_JOB_SECRET", launch::make_secret()},
      {"WORLD_SIZE", std::to_string(job.is_reference() ? 1 : processes)},
      {"MASTER_ADDR", "127.0.0.1"}};
  if (job.is_reference() || processes == 1) return variables;
  HostLink& first = links_.front();
  first.send(AgentStore{.host = one_host ? "127.0.0.1" : host_address_of(hosts_.front()),
                        .interface = one_host ? "" : job.options.interface,
                        .port = launch::parse_master_port(port_),
                        .secret = variables["DDPBENCH_JOB_SECRET"]});
  const HostStore store = await<HostStore>(first).value_or(HostStore{});
  throw_refusal(first.host(), store.error, store.exit_code);
  variables["MASTER_ADDR"] = store.address;
  variables["MASTER_PORT"] = std::to_string(store.port);
  return variables;
}

launch::SuperviseResult SshLauncher::run(const TrainingJob& job, const HostReference& reference,
                                         launch::RankChannels& channels,
                                         const launch::SuperviseOptions& supervise) {
  const double begin_s = steady_s();
  const std::vector<HostPlace> places = places_of(job);
  for (const HostPlace& place : places) {
    HostLink& link = links_[place.host];
    link.look(steady_s());
    if (link.lost().empty()) continue;
    // A connection that is gone is made anew, since its host may be back.
    link = HostLink(link.host(), start_);
    connect({place});
    link.send(AgentInputs{settings_});
    take_inputs(link);
  }
  const JoinedHosts joined = hosts_of(places);
  const auto variables = meeting(job, places.size(), !joined.are_several());
  if (interrupt_requested()) return {.interrupted = true};
  std::vector<AgentRun> all = orders(job, places);
  std::vector<HostProcess> processes;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto name = joined.name(static_cast<int>(rank));
    const int number = job.is_reference() ? 0 : static_cast<int>(rank);
    processes.push_back({&links_[places[rank].host], number, name});
    if (!joined.are_several() || job.is_reference()) continue;
    for (AgentRun::Process& process : all[places[rank].host].processes) {
      process.variables["DDPBENCH_RANK_HOST"] = name;
    }
  }
  launch::ChannelLayout layout = channels.layout();
  if (job.is_reference()) layout.ranks = 1;
  for (std::size_t host = 0; host < all.size(); ++host) {
    if (all[host].processes.empty()) continue;
    all[host].job = to_json(job).dump();
    all[host].layout = layout;
    all[host].variables = variables;
    all[host].reference = reference.key;
    all[host].extent = reference.extent;
    links_[host].send(all[host]);
  }
  std::vector<HostLink*> links;
  for (HostLink& link : links_) links.push_back(&link);
  HostRun hosts(std::move(links), std::move(processes), channels, job.options.timeout_s);
  auto result = launch::supervise(hosts.children(), begin_s, 1, channels, supervise);
  if (result.failure && result.failure->rank >= 0) {
    const std::string& note = hosts.note(result.failure->rank);
    if (!note.empty()) result.failure->error.message += "; " + note;
  }
  return result;
}

}  // namespace ddpbench::bench
