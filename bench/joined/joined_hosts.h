// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JoinedHosts: which ranks of a joined world are on which host. Processes that can map each other's
// memory are on one host. Containers of one machine that cannot are on hosts of their own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/plan/run_plan.h"
#include "parallel/comm/comm_module.h"
#include "parallel/launch/rank_environment.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

class JoinedHosts {
 public:
  struct Member {
    std::string host;                     // its name
    std::string mark;                     // comm::host_mark() there
    std::string congestion_control = "";  // tcp_congestion_control() there
  };

  JoinedHosts() = default;
  // `members`: [rank]. Hosts are numbered by their lowest ranks.
  explicit JoinedHosts(const std::vector<Member>& members);

  bool are_several() const { return hosts_.size() > 1; }
  int count() const { return static_cast<int>(hosts_.size()); }
  int of(int rank) const { return host_of_.at(static_cast<std::size_t>(rank)); }
  bool share_one(int rank, int other) const { return of(rank) == of(other); }
  // The ranks of a host, ascending. The first leads: it makes what the host needs once.
  const std::vector<int>& ranks(int host) const;
  int leader(int rank) const { return ranks(of(rank)).front(); }
  // The number of `rank` among the ranks of its host.
  int index_on_host(int rank) const;
  // The name of a rank's host: its own, with a number where several have the same.
  const std::string& name(int rank) const;
  std::vector<std::string> names() const;  // of all hosts
  std::string congestion_control() const;  // as an environment has it

  // "rank 1", or "rank 1 on b" with several hosts.
  std::string words(int rank) const;
  // "a (ranks 0, 1) and b (rank 2)", and why hosts of one machine count as several.
  std::string list() const;

 private:
  struct Host {
    std::string own_name;  // as the system says it; `name` is unique
    std::string name, mark, congestion_control;
    std::vector<int> ranks = {};
  };
  std::vector<Host> hosts_;
  std::vector<int> host_of_;  // [rank]
};

// The backend for ranks on several hosts, for --backend=`wanted` on devices of one kind (cpu |
// cuda). Throws ConfigError for one that connects processes of one host, and UnavailableError where
// "auto" finds none; both name the hosts. REQUIRES: there are several.
std::string backend_over_hosts(const std::string& wanted, const std::string& device,
                               const JoinedHosts& hosts);

// Names the hosts in a report of a joined world.
void name_hosts(const JoinedHosts& hosts, report::Report& report);

// The engine of a joined world's backend, between the plan and the first communicator. In a world
// of one rank, and with a backend that is in no module, these functions do nothing.

// Whether the engine's library may keep a thread of this rank for ever: below mpirun, MPI may do so
// in a call or when its communicators end.
bool may_hang(const std::string& backend, const launch::RankEnvironment& environment);

// Sets the variables that the backend's library reads, and begins what it does until its first
// communicator: MPI takes a quarter of a second, most of which it sleeps. It may change the
// environment until finish_engine() returns, so nothing may read the environment in between.
// `interface`: --interface.
void prepare_engine(const DevicePlan& devices, const std::string& interface,
                    const launch::RankEnvironment& environment, const JoinedHosts& hosts);

// Waits for what prepare_engine() has begun. Call it before training, because oneDNN reads the
// environment. Throws what CommModule::finish_preparing() throws.
void finish_engine(const std::string& backend, const launch::RankEnvironment& environment,
                   const WorldOptions& options);

}  // namespace ddpbench::bench
