// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AgentHosts: runs whose ranks agents start, however those came to be (agent_source.h): one on each
// host, or one for each rank. Agents on one host share what is decoded and computed there once.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/launchers/agent_link.h"
#include "bench/launchers/agent_source.h"
#include "bench/launchers/rank_hosts.h"
#include "bench/options/option_source.h"
#include "bench/run/launch_run.h"
#include "parallel/comm_backends.h"
#include "parallel/launch/grace_times.h"

namespace ddpbench::bench {
namespace {

std::set<std::size_t> first_agents(std::size_t count) {
  std::set<std::size_t> agents;
  while (agents.size() < count) agents.insert(agents.size());
  return agents;
}

class AgentHosts final : public RunHosts {
 public:
  explicit AgentHosts(std::unique_ptr<AgentSource> source);
  // Lets the agents end, for a moment.
  ~AgentHosts() override { close({}); }
  AgentHosts(const AgentHosts&) = delete;
  AgentHosts& operator=(const AgentHosts&) = delete;

  void find_devices(HostDevices& devices, int servers_on_cpu) const override;
  int slots() const override { return count_slots(hosts_); }
  void describe(report::Environment& environment) const override;
  std::string backend(const std::string& wanted, const std::string& device, int workers,
                      int servers, int first_devices) const override;
  data::DatasetInfo share_inputs(const Options& options) override;
  void prepare(const HostJob& job) override;
  launch::SuperviseResult run(const HostJob& job, launch::RankChannels& channels,
                              const launch::SuperviseOptions& supervise) override;
  int count() const override { return static_cast<int>(computers_.size()); }
  bool oversubscribes(const HostJob& job) const override;
  std::vector<report::MachineSnapshot> snapshots() override;
  bool has_reference() override;
  int hosts_of(int ranks) const override { return hosts_of(place_ranks(hosts_, ranks, 0)).count(); }

 private:
  using CoreSet = std::pair<std::string, std::set<int>>;  // of a machine, by its mark

  void connect(const std::set<std::size_t>& wanted);
  void close(const AgentEnd& end);
  void find_leaders();
  void greet(const std::set<std::size_t>& new_ones);
  const HostView& view(std::size_t agent) const { return views_.at(agent); }
  std::size_t leader_of(std::size_t agent) const;
  RankHosts hosts_of(const std::vector<std::size_t>& places) const;
  std::vector<std::size_t> places_of(const HostJob& job) const;
  std::set<int> cores_of_machine(const std::string& mark) const;
  CoreSet cores_for(std::size_t agent, std::size_t devices) const;
  std::vector<AgentRun> orders(const HostJob& job, const std::vector<std::size_t>& places,
                               const RankHosts& joined) const;
  void ask_inputs(std::size_t agent, bool writes = false);
  HostInputs take_inputs(std::size_t agent);
  template <typename Word>
  std::optional<Word> await(HostLink& link);
  launch::Variables meeting(const HostJob& job, std::size_t processes, bool one_host,
                            const std::string& nonce);
  bool is_told_to_end() const;

  std::unique_ptr<AgentSource> source_;
  const std::vector<HostSlots>& hosts_;   // [agent]
  std::vector<HostLink> links_;           // [agent]
  std::vector<HostView> views_;           // [agent], of the last connection
  std::vector<std::size_t> leaders_;      // of each host its first agent
  std::vector<std::size_t> computers_;    // those of the job for which prepare() was called last
  std::vector<std::string> decoded_;      // [agent] where its host has the data set; for leaders
  std::string settings_;                  // of share_inputs(); empty: not yet
  std::size_t started_ = 0;               // so many agents were started last
  bool engine_used_ = false;              // by them
  std::set<std::size_t> have_reference_;  // of the leaders
};

AgentHosts::AgentHosts(std::unique_ptr<AgentSource> source)
    : source_(std::move(source)), hosts_(source_->agents()), links_(hosts_.size()) {
  connect(first_agents(links_.size()));
  views_ = mapped(links_, [](const HostLink& link) { return *link.view(); });
  decoded_.resize(links_.size());
  find_leaders();
  computers_ = leaders_;
}

void AgentHosts::connect(const std::set<std::size_t>& wanted) {
  try {
    source_->connect(links_, wanted);
  } catch (const std::exception& error) {
    if (views_.empty()) close({failure_of(error).exit_code, ""});
    throw;
  }
  started_ = std::max(started_, *wanted.rbegin() + 1);
}

void AgentHosts::close(const AgentEnd& end) {
  for (HostLink& link : links_) link.close(end);
  const double limit_s = steady_s() + launch::kMoment_s;  // a later one ends with its link
  while (!std::ranges::all_of(links_, &HostLink::has_closed) && steady_s() < limit_s)
    listen(links_);
}

void AgentHosts::find_leaders() {
  leaders_.clear();
  for (std::size_t agent = 0; agent < views_.size(); ++agent)
    if (leader_of(agent) == agent) leaders_.push_back(agent);
}

// The first agent on its host.
std::size_t AgentHosts::leader_of(std::size_t agent) const {
  const auto first = std::ranges::find(views_, view(agent).mark, &HostView::mark);
  return static_cast<std::size_t>(first - views_.begin());
}

// As the ranks of a world with a rank in each slot see them.
void AgentHosts::find_devices(HostDevices& devices, int servers_on_cpu) const {
  std::vector<std::pair<int, CudaProbe>> visible;
  std::map<std::string, int> on_host;  // slots so far, by mark
  for (std::size_t agent = 0; agent < hosts_.size(); ++agent)
    for (int slot = 0; slot < hosts_[agent].slots; ++slot)
      visible.emplace_back(on_host[view(agent).mark]++, view(agent).gpus);
  std::size_t all_cores = 0;
  for (const std::size_t leader : leaders_) all_cores += cores_of_machine(view(leader).mark).size();
  devices.cpu.cores.resize(all_cores);
  std::iota(devices.cpu.cores.begin(), devices.cpu.cores.end(), 0);
  devices.cuda = gpus_of_world(visible, servers_on_cpu);
  devices.launcher = source_->launcher();
}

// Launchers bind each process to cores of its own.
std::set<int> AgentHosts::cores_of_machine(const std::string& mark) const {
  std::set<int> cores;
  for (const HostView& seen : views_)
    if (seen.mark == mark) cores.insert(seen.cores.begin(), seen.cores.end());
  return cores;
}

// Devices of one process are on the cores of its host, whatever the launcher bound it to.
AgentHosts::CoreSet AgentHosts::cores_for(std::size_t agent, std::size_t devices) const {
  const HostView& host = view(agent);
  if (devices > host.cores.size()) return {host.mark, cores_of_machine(host.mark)};
  return {host.mark, {host.cores.begin(), host.cores.end()}};
}

RankHosts AgentHosts::hosts_of(const std::vector<std::size_t>& places) const {
  return RankHosts(mapped(places, [this](std::size_t agent) -> RankHosts::Member {
    const HostView& seen = view(agent);
    return {seen.name, seen.mark, seen.environment.tcp_congestion_control};
  }));
}

// The first agent has rank 0, whose environment is that of the report.
void AgentHosts::describe(report::Environment& environment) const {
  environment = view(0).environment;
  for (const HostView& seen : views_) add_unknown_gpus(environment, seen.environment.gpus);
  if (!source_->starts_anew()) environment.launcher = source_->launcher();
  const RankHosts hosts = hosts_of(place_ranks(hosts_, slots(), 0));
  if (!hosts.are_several() && source_->has_engine()) return;
  environment.hosts = hosts.names();
  environment.tcp_congestion_control = hosts.congestion_control();
}

std::string AgentHosts::backend(const std::string& wanted, const std::string& device, int workers,
                                int servers, int first_devices) const {
  int room = 0;
  for (std::size_t agent = 0; agent < hosts_.size(); ++agent)
    if (leader_of(agent) == 0) room += hosts_[agent].slots;
  if (first_devices > room) {
    throw ConfigError(fmt::format(
        "a process with {} devices is on the first host, but {} has {}; give it more (HOST:N), or "
        "leave out what needs it",
        first_devices, hosts_.front().name, counted(room, "slot")));
  }
  const int processes = workers + servers;
  if (source_->has_engine() && processes > slots()) {
    throw ConfigError(fmt::format("a run has {} (--gpus, --servers), but {} started {}",
                                  counted(processes, "rank"), starter_words(source_->launcher()),
                                  slots()));
  }
  if (processes > 1 && is_engine_of_launcher(wanted) && !source_->starts_anew() &&
      processes != slots()) {
    throw ConfigError(fmt::format(
        "--backend={}: MPI waits for all {} that {} started, and a run has {} (--gpus, --servers); "
        "start as many, or use --launcher=mpirun",
        wanted, counted(slots(), "rank"), starter_words(source_->launcher()), processes));
  }
  const RankHosts joined = hosts_of(place_ranks(hosts_, workers, servers));
  if (!joined.are_several()) return wanted;
  std::string backend = backend_over_hosts(wanted, device, joined);
  // Commands of ps travel in host memory. Where nothing takes them between hosts, this throws.
  if (servers > 0 && comm_backend(backend).devices == DeviceKind::cuda)
    backend_over_hosts("auto", "cpu", joined);
  return backend;
}

// A reference has a rank on each host, and no world.
std::vector<std::size_t> AgentHosts::places_of(const HostJob& job) const {
  if (job.is_reference) return computers_;
  const int processes = static_cast<int>(job.devices.size());
  return place_ranks(hosts_, processes - job.servers, job.servers);
}

bool AgentHosts::oversubscribes(const HostJob& job) const {
  const std::vector<std::size_t> places = places_of(job);
  std::map<CoreSet, std::size_t> threads;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::size_t devices = job.devices.at(job.is_reference ? 0 : rank).size();
    threads[cores_for(places[rank], devices)] +=
        devices * static_cast<std::size_t>(job.threads_per_device);
  }
  return std::ranges::any_of(threads, [](const auto& on_set) {
    const auto& [cores, count] = on_set;
    return count > cores.second.size();
  });
}

// Waits for what the host answers. Nothing when the user interrupts; throws where the host is lost,
// or refuses.
template <typename Word>
std::optional<Word> AgentHosts::await(HostLink& link) {
  while (!interrupt_requested() && !is_told_to_end()) {
    if (!link.lost().empty()) throw CommError(link.lost());
    while (auto word = link.next()) {
      if (auto* const found = std::get_if<Word>(&*word)) return std::move(*found);
      const auto* const refusal = std::get_if<AgentRefusal>(&*word);
      if (refusal != nullptr && refusal->rank < 0) throw_refusal(link, *refusal);
    }
    listen(links_);
  }
  return std::nullopt;
}

// Has one agent find what the runs read. Agents of one host have the data set once.
void AgentHosts::ask_inputs(std::size_t agent, bool writes) {
  const std::size_t leader = leader_of(agent);
  links_[agent].send(AgentInputs{settings_, leader == agent ? "" : decoded_[leader], writes});
}

HostInputs AgentHosts::take_inputs(std::size_t agent) {
  const auto inputs = await<HostInputs>(links_[agent]);
  if (!inputs) throw Interrupted();
  decoded_[agent] = inputs->decoded;
  return *inputs;
}

data::DatasetInfo AgentHosts::share_inputs(const Options& options) {
  settings_ = to_json(options).dump();
  for (const std::size_t leader : leaders_) ask_inputs(leader, leader == 0);
  std::map<std::size_t, HostInputs> all;
  for (const std::size_t leader : leaders_) all[leader] = take_inputs(leader);
  for (std::size_t agent = 0; agent < links_.size(); ++agent)
    if (!all.contains(agent)) ask_inputs(agent);
  const HostInputs first = all.at(0);
  for (std::size_t agent = 1; agent < links_.size(); ++agent) {
    const HostInputs inputs = all.contains(agent) ? all.at(agent) : take_inputs(agent);
    for (const auto& [what, hash] : inputs.contents) {
      const std::string& expected = first.contents.at(what);
      if (hash == expected) continue;
      throw ConfigError(fmt::format(
          "{} on {} is not that on {}: its content has hash {}, not {}; give all hosts the same "
          "files",
          what, links_[agent].words(), links_.front().words(), hash, expected));
    }
  }
  return dataset_from_json(nlohmann::json::parse(first.dataset));
}

bool AgentHosts::has_reference() {
  for (HostLink& link : links_) link.look();
  return std::ranges::all_of(computers_, [this](std::size_t leader) {
    return have_reference_.contains(leader) && links_[leader].lost().empty();
  });
}

// Each agent knows what it and its ranks used: on a machine that of all is this program's own.
std::vector<report::MachineSnapshot> AgentHosts::snapshots() {
  std::vector<std::size_t> asked;
  for (std::size_t agent = 0; agent < links_.size(); ++agent)
    if (links_[agent].lost().empty() && std::ranges::count(computers_, leader_of(agent)) > 0)
      asked.push_back(agent);
  for (const std::size_t agent : asked) links_[agent].send(AgentLook{});
  std::map<std::size_t, report::MachineSnapshot> seen;  // by leader
  for (const std::size_t agent : asked) {
    report::MachineSnapshot own;
    try {
      own = await<HostLoad>(links_[agent]).value_or(HostLoad{}).snapshot;
    } catch (const CommError&) {  // the run that it frames will say so
    }
    const auto [machine, is_first] = seen.try_emplace(leader_of(agent), own);
    if (!is_first) machine->second.add_own(own);
  }
  return mapped(computers_, [&seen](std::size_t leader) { return seen[leader]; });
}

// A connection that is gone is made anew, since its host may be back; where it is not, run() names
// the rank that is lost. A launcher's engine needs all that the launcher has started, each once.
void AgentHosts::prepare(const HostJob& job) {
  const std::size_t processes = job.devices.size();
  for (HostLink& link : links_) link.look();
  const bool uses_engine = !job.is_reference && processes > 1 && is_engine_of_launcher(job.backend);
  if (uses_engine && source_->starts_anew() && (engine_used_ || started_ != processes)) {
    close({});
    for (HostLink& link : links_) link = HostLink();
    started_ = 0;
    engine_used_ = false;
  }
  const std::vector<std::size_t> places = places_of(job);
  std::set<std::size_t> wanted;
  for (const std::size_t agent : places) wanted.insert({agent, leader_of(agent)});
  std::set<std::size_t> new_ones;
  for (const std::size_t agent : wanted)
    if (!links_[agent].lost().empty()) new_ones.insert(agent);
  if (!new_ones.empty() && !source_->starts_anew() && (interrupt_requested() || is_told_to_end()))
    throw CommError(links_[*new_ones.begin()].lost());  // why the launcher ends all others
  if (!new_ones.empty() && source_->starts_anew()) {
    try {
      connect(wanted);
    } catch (const CommError&) {  // run() names the rank; a launcher itself says more
      if (source_->has_engine()) throw;
    }
    if (source_->has_engine()) new_ones = first_agents(*wanted.rbegin() + 1);  // all were started
    std::erase_if(new_ones, [this](std::size_t agent) { return !links_[agent].lost().empty(); });
    greet(new_ones);
  }
  if (job.is_reference) return;
  std::set<std::size_t> leaders;
  for (const std::size_t agent : places) leaders.insert(leader_of(agent));
  computers_.assign(leaders.begin(), leaders.end());
}

// A launcher may have put them elsewhere than before.
void AgentHosts::greet(const std::set<std::size_t>& new_ones) {
  for (const std::size_t agent : new_ones) {
    views_[agent] = *links_[agent].view();
    have_reference_.erase(agent);
  }
  find_leaders();
  if (settings_.empty()) return;
  for (const std::size_t agent : new_ones) {
    ask_inputs(agent);
    take_inputs(agent);
  }
}

std::vector<AgentRun> AgentHosts::orders(const HostJob& job, const std::vector<std::size_t>& places,
                                         const RankHosts& joined) const {
  std::vector<AgentRun> all(hosts_.size());
  std::map<std::string, int> on_machine;  // devices so far, by mark
  std::map<CoreSet, int> on_cores;
  std::vector<CoreSet> sets(hosts_.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const HostView& host = view(places[rank]);
    AgentRun& order = all[places[rank]];
    AgentRun::Process process;
    process.number = job.is_reference ? 0 : static_cast<int>(rank);
    process.devices = job.devices.at(static_cast<std::size_t>(process.number));
    const CoreSet cores = cores_for(places[rank], process.devices.size());
    sets[places[rank]] = cores;
    if (cores.second.size() != host.cores.size())
      order.cores.assign(cores.second.begin(), cores.second.end());
    for (std::size_t i = 0; i < process.devices.size(); ++i) {
      process.places.push_back(on_cores[cores]++);
      process.gpu_places.push_back(on_machine[host.mark]++);
    }
    process.variables["RANK"] = std::to_string(process.number);
    process.variables["LOCAL_RANK"] =
        std::to_string(job.is_reference ? 0 : joined.index_on_host(process.number));
    if (joined.are_several() && !job.is_reference)
      process.variables["DDPBENCH_RANK_HOST"] = joined.name(process.number);
    order.processes.push_back(std::move(process));
  }
  for (std::size_t agent = 0; agent < all.size(); ++agent)
    all[agent].devices_here = on_cores[sets[agent]];
  return all;
}

// The variables by which the ranks of a world find each other, at a store of the first host's.
launch::Variables AgentHosts::meeting(const HostJob& job, std::size_t processes, bool one_host,
                                      const std::string& nonce) {
  launch::Variables variables = {{"DDPBENCH_LAUNCHER", "ddpbench"},
                                 {"WORLD_SIZE", std::to_string(job.is_reference ? 1 : processes)},
                                 {"MASTER_ADDR", "127.0.0.1"}};
  HostLink& first = links_.front();
  if (job.is_reference || processes == 1 || !first.lost().empty()) return variables;
  first.send(AgentStore{.host = one_host ? "127.0.0.1" : source_->address_of_first(view(0)),
                        .interface = one_host ? "" : job.interface,
                        .port = source_->port(),
                        .nonce = nonce});
  const HostStore store = await<HostStore>(first).value_or(HostStore{});
  variables["MASTER_ADDR"] = store.address;
  variables["MASTER_PORT"] = std::to_string(store.port);
  return variables;
}

// A launcher's signal asks all agents, and this process, to end.
bool AgentHosts::is_told_to_end() const {
  return std::ranges::any_of(links_, [](const HostLink& link) { return link.told_to_end() != 0; });
}

launch::SuperviseResult AgentHosts::run(const HostJob& job, launch::RankChannels& channels,
                                        const launch::SuperviseOptions& supervise) {
  const double begin_s = steady_s();
  const std::vector<std::size_t> places = places_of(job);
  const RankHosts joined = hosts_of(places);
  const std::string nonce = launch::make_secret();  // any that was not used before
  const launch::Variables variables = meeting(job, places.size(), !joined.are_several(), nonce);
  std::vector<const HostLink*> missed;  // a launcher that loses one of these ends all the others
  for (const HostLink& link : links_)
    if (link.lost().empty()) missed.push_back(&link);
  for (const std::size_t agent : places) missed.push_back(&links_[agent]);
  const auto is_cut_off = [&] {
    return (supervise.interrupted() || is_told_to_end()) &&
           !(source_->has_engine() && std::ranges::any_of(missed, &HostLink::is_lost));
  };
  if (is_cut_off()) return {.interrupted = true};
  std::vector<AgentRun> all = orders(job, places, joined);
  std::vector<HostProcess> processes;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const int place = static_cast<int>(rank);
    const std::size_t agent = places[rank];
    const int number = job.is_reference ? 0 : place;
    // For people a reference is that of its host's first rank.
    const int known =
        job.is_reference
            ? count_slots({hosts_.begin(), hosts_.begin() + static_cast<std::ptrdiff_t>(agent)})
            : place;
    processes.push_back({&links_[agent], number, known, joined.name(place)});
  }
  launch::ChannelLayout layout = channels.layout();
  if (job.is_reference) layout.ranks = 1;
  for (std::size_t agent = 0; agent < all.size(); ++agent) {
    if (all[agent].processes.empty()) continue;
    const std::size_t leader = leader_of(agent);
    all[agent].kind = job.kind;
    all[agent].job = job.description.dump();
    all[agent].plan = job.plan;
    all[agent].layout = layout;
    all[agent].variables = variables;
    all[agent].nonce = nonce;
    all[agent].reference = job.reference.key;
    all[agent].extent = job.reference.extent;
    if (leader != agent) all[agent].reference_handle = links_[leader].reference_handle();
    links_[agent].send(all[agent]);
  }
  launch::SuperviseOptions watch = supervise;
  watch.interrupted = is_cut_off;
  auto result =
      launch::supervise(children_on_hosts(links_, std::move(processes), channels, job.timeout_s),
                        begin_s, 1, channels, watch);
  if (job.is_reference) {
    have_reference_.clear();
    if (!result.failure && !result.interrupted)
      have_reference_.insert(computers_.begin(), computers_.end());
  }
  if (!job.is_reference && is_engine_of_launcher(job.backend)) engine_used_ = true;
  return result;
}

}  // namespace

std::unique_ptr<RunHosts> hosts_of_agents(std::unique_ptr<AgentSource> source) {
  return std::make_unique<AgentHosts>(std::move(source));
}

}  // namespace ddpbench::bench
