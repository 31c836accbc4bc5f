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
#include "parallel/launch/child_process.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The word that makes the program an agent, behind its name.
inline constexpr const char* kAgentWord = "host-agent";

// ---- from the supervisor ----

// The first message.
struct AgentGreeting {
  std::string device;     // --device, so that no GPU is looked for in vain
  std::string directory;  // to work in, where the host has it
};

// Starts ranks, each with these variables beside the agent's own.
struct AgentRun {
  struct Rank {
    int rank = 0;
    std::map<std::string, std::string> variables;
  };
  int threads_per_device = 1;
  std::map<std::string, std::string> variables;  // of all ranks
  std::vector<Rank> ranks;
};

// Sends a signal to all ranks.
struct AgentSignal {
  int number = 0;
};

using AgentOrder = std::variant<AgentGreeting, AgentRun, AgentSignal>;

// ---- from the agent ----

// What the host is, once.
struct HostView {
  std::string version;  // version_text() there
  std::string name, mark;
  VisibleGpus gpus;
  report::Environment environment;
  std::string note;  // for people; empty: none
};

struct RankLine {
  int rank = 0;
  bool is_error = false;  // on stderr
  std::string text;
};

struct RankEnd {
  int rank = 0;
  launch::ChildExit exit;
};

// A rank that could not be started.
struct RankRefusal {
  int rank = 0;
  std::string why;
};

// Sent every second.
struct AgentHeartbeat {};

using AgentWord = std::variant<HostView, RankLine, RankEnd, RankRefusal, AgentHeartbeat>;

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
