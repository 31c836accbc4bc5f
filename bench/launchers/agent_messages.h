// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a supervisor and an agent say to each other: a JSON object a line, through the agent's
// standard input and output, or a socket on which both have proved that they have the job's secret
// (meeting.h). Nobody encrypts that: both derive each run's secret from the job's and a nonce.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/rank/reference_weights.h"
#include "kernels/runtime/cuda_device.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/rank_records.h"
#include "reports/data/report.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {

// The word that makes the program an agent, behind its name, and the variable that has "PORT
// ADDRESS" of its supervisor and the one with their secret, where it is not its standard input's.
inline constexpr const char* kAgentWord = "host-agent";
inline constexpr const char* kSupervisorVariable = "DDPBENCH_SUPERVISOR";
inline constexpr const char* kSupervisorSecretVariable = "DDPBENCH_SUPERVISOR_SECRET";

// ---- from the supervisor ----

// The first message.
struct AgentGreeting {
  std::string device;     // --device, so that no GPU is looked for in vain
  std::string directory;  // to work in, where the host has it; empty: where it is
  // The job's, for who hears this by its standard input; empty: it has proved that it has it.
  std::string secret = {};
};

// Decodes the data set of these settings, and reads the files that they name. Asks for HostInputs.
struct AgentInputs {
  std::string settings;  // Options, as JSON
  std::string decoded;   // where another agent of this host has the data set; empty: nowhere
  bool writes = false;   // rank 0 will be here, and write files that are not there yet
};

// Serves a store for the ranks of the next run. Asks for HostStore.
struct AgentStore {
  std::string host, interface;  // the name of this host for the others; --interface, if not empty
  int port = 0;                 // the first that is tried
  std::string nonce;            // of the run (AgentRun)
};

// Starts processes of one run, each with these variables beside the agent's own.
struct AgentRun {
  struct Process {
    int number = 0;               // among those of the run: its rank
    std::vector<int> devices;     // of the plan
    std::vector<int> places;      // of these devices among the run's on the same cores
    std::vector<int> gpu_places;  // the same among those on this machine
    std::map<std::string, std::string> variables;
  };
  std::string kind, job;   // as launch_job() takes them, the job as JSON
  std::string plan;        // the JSON pointer of the job's DevicePlan
  int devices_here = 0;    // that the run has on these cores, those of other agents, too
  std::vector<int> cores;  // of this machine that the run may use; empty: those of this process
  launch::ChannelLayout layout;
  std::map<std::string, std::string> variables;  // of all processes
  std::string nonce;                             // that the run's secret is derived by
  std::vector<Process> processes;
  // What this run computes (a reference) or is verified against; empty: nothing. The agent keeps
  // the one that was computed last.
  std::string reference;
  ReferenceWeights::Extent extent;  // of what it computes
  std::string reference_handle;     // where another agent of this host has it; empty: nowhere
};

// Sends a signal to a process.
struct AgentSignal {
  int process = 0, number = 0;
};

// Asks for a HostLoad.
struct AgentLook {};

// The last message: the agent ends with the exit code, and says why if it must.
struct AgentEnd {
  int exit_code = 0;
  std::string message;  // empty: nothing
};

using AgentOrder = std::variant<AgentGreeting, AgentInputs, AgentStore, AgentRun, AgentSignal,
                                AgentLook, AgentEnd>;

// ---- from the agent ----

// The first message: version_text() there. What others say else may look different.
struct AgentHello {
  std::string version;
};

// What the host is, once.
struct HostView {
  std::string name, mark;
  std::vector<int> cores;  // OS processors that the process may use
  CudaProbe gpus;
  report::Environment environment;
  std::string note;  // for people; empty: none
  // Where a launcher started the agent, its place, and its command line without what is its own.
  int rank = 0, world_size = 1;
  std::string arguments;
};

// What the host has for the runs.
struct HostInputs {
  std::string dataset;                          // data::DatasetInfo, as JSON
  std::map<std::string, std::string> contents;  // of files, by what they are: hashes
  std::string decoded;                          // for AgentInputs of this host's other agents
};

// Where the store is.
struct HostStore {
  std::string address;
  int port = 0;
};

struct HostLoad {
  report::MachineSnapshot snapshot;
};

// Where the reference will be that this host computes (AgentRun::reference_handle).
struct ReferencePlace {
  std::string handle;
};

// A signal asked the agent to end, which it leaves to its supervisor.
struct AgentTold {
  int signal = 0;
};

// What a rank has written to its channel since the last message: RankMirror::take().
struct RankNews {
  int rank = 0;
  std::string bytes;
};

struct RankLine {
  int rank = 0;
  std::string text;
};

struct RankEnd {
  int rank = 0;
  launch::ChildExit exit;
  std::string note;  // on its memory; empty: nothing
};

// What could not be done.
struct AgentRefusal {
  int rank = -1;  // the process that was to be started; -1: another order
  std::string why;
  int exit_code = 0;  // of that
};

// Sent several times a second while ranks run, else every second.
struct AgentHeartbeat {
  double clock_s = 0;        // of the host's monotonic clock
  std::vector<int> stopped;  // processes, by SIGSTOP or a debugger
};

using AgentWord =
    std::variant<AgentHello, HostView, HostInputs, HostStore, HostLoad, ReferencePlace, AgentTold,
                 RankNews, RankLine, RankEnd, AgentRefusal, AgentHeartbeat>;

// `ddpbench host-agent`: what a remote shell or a launcher starts on a host. It says what the host
// is, starts ranks when it is told to, and hands on what they write. It and all that it started end
// when the supervisor ends, however it ends, or the connection does. Returns the exit code.
int host_agent_main();
// The same in a process that a launcher started beside the supervisor's, which is rank 0's.
// `arguments`: its command line. Throws CommError where that cannot be found.
int joined_agent_main(const launch::RankEnvironment& environment, const std::string& interface,
                      const std::vector<std::string>& arguments, double limit_s);
// The arguments without those that a launcher gives each process, as a line for comparison.
std::string common_arguments(const std::vector<std::string>& arguments);

// A message as a line, with its end. Bytes that are not UTF-8 are replaced.
std::string order_line(const AgentOrder& order);
std::string word_line(const AgentWord& word);
// nullopt for what is no such message: other programs may write to the same stream.
std::optional<AgentOrder> read_order(const std::string& line);
std::optional<AgentWord> read_word(const std::string& line);

}  // namespace ddpbench::bench
