// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AgentSource: how a command gets its agents. A remote shell starts one on each host; a launcher
// that this command starts, or has started this process, one for each rank.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/launchers/agent_link.h"
#include "bench/launchers/rank_hosts.h"
#include "bench/run/launch_run.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

class AgentSource {
 public:
  virtual ~AgentSource() = default;

  // [agent] Its host by a name for people, and how many ranks it may have.
  virtual const std::vector<HostSlots>& agents() const = 0;
  // Connects to those `wanted` of `links` ([agent]) that are lost. Throws CommError (exit 4) that
  // names those which cannot be used: out of reach, without the program, with another version of
  // it; and Interrupted. Once, for all, unless starts_anew().
  virtual void connect(std::vector<HostLink>& links, const std::set<std::size_t>& wanted) = 0;
  // The name of this source in reports; empty: none.
  virtual std::string launcher() const { return {}; }
  // Whether a launcher started the agents, whose library (MPI) can then be a run's engine: once in
  // each agent, and with all of them.
  bool has_engine() const { return !launcher().empty(); }
  // Whether such agents can be started anew, as many as a run has.
  virtual bool starts_anew() const { return true; }
  // Where ranks on several hosts find those of the first one's, whose agent has said `first` of it,
  // and the first port that is tried for their store.
  virtual std::string address_of_first(const HostView& first) const = 0;
  virtual int port() const = 0;
};

// Who started processes, for messages: "mpirun", or "a launcher" that only set variables.
inline std::string starter_words(const std::string& launcher) {
  return launcher == "environment" ? "a launcher" : launcher;
}

// Where the store of a run's ranks is, if not where the user says: PyTorch's default MASTER_PORT.
inline constexpr int kUsualPort = 29500;

// `shell`: the remote shell; `program`: ddpbench there; `greeting`: for each.
struct ShellStart {
  std::vector<HostSlots> hosts;
  std::string shell, program;
  AgentGreeting greeting;
  int port = kUsualPort;
};
std::unique_ptr<AgentSource> agents_behind_shell(ShellStart start);

// The processes that a launcher started, of which this is rank 0's. `arguments`: its command line,
// by common_arguments(). `limit_s`: for all of them to come. Throws as AgentListener does.
struct JoinedStart {
  launch::RankEnvironment environment;
  std::string interface, arguments;
  AgentGreeting greeting;
  double limit_s = 0;
};
std::unique_ptr<AgentSource> agents_beside(JoinedStart start);

// What the command line of mpirun or srun is made of.
struct LauncherCommand {
  std::string name;              // mpirun | srun
  std::vector<HostSlots> hosts;  // empty: where the launcher puts the ranks
  std::string arguments;         // of the user, quoted as in a shell
  // The network interface of mpirun's daemons, by a name that it has on all hosts. Empty: they
  // choose.
  std::string interface = {};
};

// The command without the program, for a shell, that starts so many processes with `variables` (by
// name; the launcher's own environment has their values). Pure. `cores`: of this machine, beyond
// which Open MPI must be allowed to go.
std::string launcher_words(const LauncherCommand& command, int processes, int cores,
                           const std::vector<std::string>& variables);

// `most`: processes of a run. `address`: of this host, where agents reach it; `program`: the same
// on all hosts. `limit_s`: for all agents to come.
struct LauncherStart {
  int most = 1;
  std::string address, program;
  AgentGreeting greeting;
  double limit_s = 0;
  int port = kUsualPort;
};
std::unique_ptr<AgentSource> agents_of_launcher(LauncherCommand command, LauncherStart start);

// Connects to all agents. Throws as AgentSource::connect() does, and has then told those that are
// there to end.
std::unique_ptr<RunHosts> hosts_of_agents(std::unique_ptr<AgentSource> source);

}  // namespace ddpbench::bench
