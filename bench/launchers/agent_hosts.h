// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AgentHosts: runs whose ranks agents start, however those came to be (agent_source.h): one on each
// host, or one for each rank. Agents on one host share what is decoded and computed there once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/launchers/agent_source.h"
#include "bench/launchers/host_list.h"
#include "bench/launchers/host_run.h"
#include "bench/launchers/rank_hosts.h"
#include "bench/run/launch_run.h"

namespace ddpbench::bench {

class AgentHosts final : public RunHosts {
 public:
  // Connects to all agents. Throws as AgentSource::connect() does, and has then told those that are
  // there to end.
  explicit AgentHosts(std::unique_ptr<AgentSource> source);
  // Lets the agents end, for a moment.
  ~AgentHosts() override;
  AgentHosts(const AgentHosts&) = delete;
  AgentHosts& operator=(const AgentHosts&) = delete;

  void find_devices(HostDevices& devices) const override;
  int slots() const override { return count_slots(hosts_); }
  void describe(report::Environment& environment) const override;
  std::string backend(const std::string& wanted, const std::string& device, int workers,
                      int servers, int first_devices) const override;
  data::DatasetInfo share_inputs(const Options& options) override;
  void prepare(const HostJob& job) override;
  launch::SuperviseResult run(const HostJob& job, launch::RankChannels& channels,
                              const launch::SuperviseOptions& supervise) override;
  int count() const override { return static_cast<int>(leaders_.size()); }
  bool oversubscribes(const HostJob& job) const override;
  report::MachineSnapshot snapshot() override;
  bool has_reference() override;
  int hosts_of(int ranks) const override;

 private:
  using Variables = std::map<std::string, std::string>;

  void connect(const std::set<std::size_t>& wanted);
  void close(const AgentEnd& end);
  void find_leaders();
  const HostView& view(std::size_t agent) const { return views_.at(agent); }
  std::size_t leader_of(std::size_t agent) const;
  RankHosts hosts_of(const std::vector<HostPlace>& places) const;
  std::vector<HostPlace> places_of(const HostJob& job) const;
  std::set<int> cores_of_machine(const std::string& mark) const;
  std::vector<AgentRun> orders(const HostJob& job, const std::vector<HostPlace>& places,
                               const RankHosts& joined) const;
  HostInputs give_inputs(std::size_t agent);
  template <typename Word>
  std::optional<Word> await(HostLink& link);
  Variables meeting(const HostJob& job, std::size_t processes, bool one_host);
  bool is_told_to_end() const;

  std::unique_ptr<AgentSource> source_;
  const std::vector<HostSlots>& hosts_;  // [agent]
  std::vector<HostLink> links_;          // [agent]
  std::vector<HostView> views_;          // [agent], of the first connection
  std::vector<std::size_t> leaders_;     // of each host its first agent
  std::vector<std::string> decoded_;     // [agent] where its host has the data set; for leaders
  std::string settings_;                 // of share_inputs(); empty: not yet
  std::size_t started_ = 0;              // so many agents were started last
  bool engine_used_ = false;             // by them
  bool has_reference_ = false;
};

}  // namespace ddpbench::bench
