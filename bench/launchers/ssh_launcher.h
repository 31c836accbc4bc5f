// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SshLauncher: starts the ranks of runs on the hosts that the user lists. It has an agent on each,
// which a remote shell starts once for the whole matrix.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/joined/joined_hosts.h"
#include "bench/launchers/host_list.h"
#include "bench/launchers/host_world.h"
#include "bench/run/launch_run.h"

namespace ddpbench::bench {

// How many processes a cell's run has, and how many of them are servers.
struct CellProcesses {
  int workers = 1, servers = 0;
};
CellProcesses processes_of(const RunCell& cell);

// The backend of a cell's run on these hosts. `member`: of a host, by its number. Throws
// ConfigError where the devices of one process are more than the slots of its host.
std::string backend_on(const std::vector<HostSlots>& hosts, const Options& options,
                       const RunCell& cell,
                       const std::function<JoinedHosts::Member(std::size_t)>& member);

class SshLauncher final : public RunHosts {
 public:
  // Connects to all hosts, each once. Throws CommError (exit 4) that names those which cannot be
  // used: out of reach, without the program, with another version of it. `port`: MASTER_PORT of the
  // runs.
  SshLauncher(std::vector<HostSlots> hosts, AgentStart start, std::string port);
  // Lets the agents end, for a moment.
  ~SshLauncher() override;
  SshLauncher(const SshLauncher&) = delete;
  SshLauncher& operator=(const SshLauncher&) = delete;

  void find_devices(HostDevices& devices) const override;
  std::optional<int> slots() const override { return count_slots(hosts_); }
  void describe(report::Environment& environment) const override;
  std::string backend(const Options& options, const RunCell& cell) const override;
  data::DatasetInfo share_inputs(const Options& options) override;
  launch::SuperviseResult run(const TrainingJob& job, const HostReference& reference,
                              launch::RankChannels& channels,
                              const launch::SuperviseOptions& supervise) override;
  int count() const override { return static_cast<int>(hosts_.size()); }
  bool oversubscribes(const TrainingJob& job) const override;
  report::MachineSnapshot snapshot() override;
  bool all_there() override;

 private:
  void connect(const std::vector<HostPlace>& places);
  std::vector<HostPlace> places_of(const TrainingJob& job) const;
  std::vector<AgentRun> orders(const TrainingJob& job, const std::vector<HostPlace>& places) const;
  JoinedHosts hosts_of(const std::vector<HostPlace>& places) const;
  HostInputs take_inputs(HostLink& link);
  template <typename Word>
  std::optional<Word> await(HostLink& link);
  std::map<std::string, std::string> meeting(const TrainingJob& job, std::size_t processes,
                                             bool one_host);
  const HostView& view(std::size_t host) const { return views_.at(host); }
  JoinedHosts::Member member(std::size_t host) const;

  std::vector<HostSlots> hosts_;
  AgentStart start_;
  std::string port_;
  std::vector<HostLink> links_;  // [host]
  std::vector<HostView> views_;  // [host], of the first connection
  std::string settings_;         // of share_inputs(); empty: not yet
};

}  // namespace ddpbench::bench
