// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a supervisor and its agent on a host say to each other, through the agent's standard input
// and output: a JSON object a line. The job's secret passes here, and so never through a command
// line that others on the host can read.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/joined/joined_devices.h"
#include "bench/rank/reference_weights.h"
#include "datasets/dataset.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/rank_records.h"
#include "reports/data/report.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {

// The word that makes the program an agent, behind its name.
inline constexpr const char* kAgentWord = "host-agent";

// ---- from the supervisor ----

// The first message.
struct AgentGreeting {
  std::string device;     // --device, so that no GPU is looked for in vain
  std::string directory;  // to work in, where the host has it
};

// Decodes the data set of these settings, and reads the files that they name. Asks for HostInputs.
struct AgentInputs {
  std::string settings;  // launched_run_text()
};

// Serves a store for the ranks of the next run. Asks for HostStore.
struct AgentStore {
  std::string host, interface;  // the name of this host for the others; --interface, if not empty
  int port = 0;                 // the first that is tried
  std::string secret;
};

// Starts processes of one run, each with these variables beside the agent's own.
struct AgentRun {
  struct Process {
    int number = 0;            // among those of the run: its rank
    std::vector<int> devices;  // of the plan
    std::vector<int> places;   // of these devices among the run's on this machine
    std::map<std::string, std::string> variables;
  };
  std::string job;          // a TrainingJob, as JSON
  int machine_devices = 0;  // that the run has on this machine, those of other agents, too
  launch::ChannelLayout layout;
  std::map<std::string, std::string> variables;  // of all processes
  std::vector<Process> processes;
  // What this run computes (a reference) or is verified against; empty: nothing. The agent keeps
  // the one that was computed last.
  std::string reference;
  ReferenceWeights::Extent extent;  // of what it computes
};

// Sends a signal to a process.
struct AgentSignal {
  int process = 0, number = 0;
};

// Asks for a HostLoad.
struct AgentLook {};

using AgentOrder =
    std::variant<AgentGreeting, AgentInputs, AgentStore, AgentRun, AgentSignal, AgentLook>;

// ---- from the agent ----

// What the host is, once.
struct HostView {
  std::string version;  // version_text() there
  std::string name, mark;
  VisibleGpus gpus;
  report::Environment environment;
  std::string note;  // for people; empty: none
};

// What the host has for the runs.
struct HostInputs {
  data::DatasetInfo dataset;
  std::map<std::string, std::string> contents;  // of files, by what they are: hashes
  std::string error;                            // why it has them not; empty: it has
  int exit_code = 0;                            // of that
};

// Where the store is.
struct HostStore {
  std::string address;
  int port = 0;
  std::string error;  // why there is none; empty: there is
  int exit_code = 0;
};

struct HostLoad {
  report::MachineSnapshot snapshot;
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

// A process that could not be started.
struct RankRefusal {
  int rank = 0;
  std::string why;
  int exit_code = 0;  // of that
};

// Sent several times a second while ranks run, else every second.
struct AgentHeartbeat {
  double clock_s = 0;        // of the host's monotonic clock
  std::vector<int> stopped;  // processes, by SIGSTOP or a debugger
};

using AgentWord = std::variant<HostView, HostInputs, HostStore, HostLoad, RankNews, RankLine,
                               RankEnd, RankRefusal, AgentHeartbeat>;

// `ddpbench host-agent`: what the remote shell starts on a host. It says what the host is, starts
// ranks when it is told to, and hands on what they write. It and all that it started end with its
// standard input: when the supervisor ends, however it ends, or the connection does. Returns the
// exit code.
int host_agent_main();

// A message as a line, with its end. Bytes that are not UTF-8 are replaced.
std::string order_line(const AgentOrder& order);
std::string word_line(const AgentWord& word);
// nullopt for what is no such message: other programs may write to the same stream.
std::optional<AgentOrder> read_order(const std::string& line);
std::optional<AgentWord> read_word(const std::string& line);

}  // namespace ddpbench::bench
