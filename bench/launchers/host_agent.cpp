// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_messages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/build_info.h"
#include "bench/host/environment_capture.h"
#include "bench/host/host_devices.h"
#include "bench/host/terminal.h"
#include "bench/launchers/launched_run.h"
#include "bench/options/option_table.h"
#include "parallel/comm/shm/peers/peer_memory.h"
#include "parallel/launch/piped_process.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

constexpr double kHeartbeatEvery_s = 1;
constexpr const char* kOwnProgram = "/proc/self/exe";

// Standard input as lines. The copy of the descriptor is not handed on to ranks.
launch::LineReader own_input() {
  FileDescriptor input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!input || ::fcntl(input.get(), F_SETFL, O_NONBLOCK) != 0) {
    throw_system_error<InternalError>("cannot read standard input", errno);
  }
  return launch::LineReader(std::move(input));
}

class HostAgent {
 public:
  int run() {
    // What anything here prints must not get among the messages.
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    while (input_.fd() >= 0) {
      wait();
      input_.read();
      for (const std::string& line : input_.take()) {
        const std::optional<AgentOrder> order = read_order(line);
        if (order) std::visit([this](const auto& one) { obey(one); }, *order);
      }
      for (Rank& rank : ranks_) hand_on(rank);
      std::erase_if(ranks_, [](const Rank& rank) { return rank.process == nullptr; });
      if (steady_s() - said_s_ >= kHeartbeatEvery_s) say_word(AgentHeartbeat{});
    }
    return 0;  // ranks that are left end with their objects
  }

 private:
  struct Rank {
    int number = 0;
    std::unique_ptr<launch::PipedProcess> process;
  };

  void say_word(const AgentWord& word) { say_words(word_line(word)); }

  // A reader that is gone raises SIGPIPE, which ends this process, and so the ranks.
  void say_words(const std::string& lines) {
    if (lines.empty()) return;
    write_standard_output(output_, lines);
    said_s_ = steady_s();
  }

  void wait() {
    std::vector<pollfd> watched{{input_.fd(), POLLIN, 0}};
    for (const Rank& rank : ranks_) rank.process->watch(watched);
    ::poll(watched.data(), watched.size(), static_cast<int>(1e3 * kHeartbeatEvery_s));
  }

  void obey(const AgentGreeting& greeting) {
    HostView host;
    if (::chdir(greeting.directory.c_str()) != 0) {
      host.note = fmt::format("{}: {}; its ranks work in their home directory", greeting.directory,
                              std::strerror(errno));
      const char* const home = std::getenv("HOME");
      if (home != nullptr && ::chdir(home) != 0) host.note += ", which is not there";
    }
    const HostDevices devices = find_devices(greeting.device);
    host.version = version_text();
    host.name = host_name();
    host.mark = comm::host_mark();
    host.gpus = {0, devices.cuda};
    host.environment = environment_of_process(option_variables());
    add_gpus(host.environment, devices);
    say_word(host);
  }

  void obey(const AgentRun& run) {
    for (const AgentRun::Rank& rank : run.ranks) {
      auto variables = run.variables;
      variables.insert(rank.variables.begin(), rank.variables.end());
      launch::PipedProcess::Spec spec;
      spec.executable = kOwnProgram;
      spec.arguments = {"ddpbench"};
      spec.environment =
          launch::child_variables(run.threads_per_device, variables, variables_to_drop());
      try {
        ranks_.push_back({rank.rank, std::make_unique<launch::PipedProcess>(spec)});
      } catch (const std::exception& error) {
        say_word(RankRefusal{rank.rank, failure_of(error).message});
      }
    }
  }

  void obey(const AgentSignal& signal) {
    for (const Rank& rank : ranks_) {
      rank.process->signal(signal.number);
      rank.process->signal(SIGCONT);  // a stopped one would see no other
    }
  }

  void hand_on(Rank& rank) {
    const bool ended = rank.process->look();
    std::string lines;  // a report has hundreds: they are said at once
    for (std::string& text : rank.process->take_output()) {
      lines += word_line(RankLine{rank.number, false, std::move(text)});
    }
    for (std::string& text : rank.process->take_errors()) {
      lines += word_line(RankLine{rank.number, true, std::move(text)});
    }
    say_words(lines);
    if (!ended) return;
    say_word(RankEnd{rank.number, rank.process->how_ended()});
    rank.process.reset();
  }

  FileDescriptor output_{::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
  launch::LineReader input_ = own_input();
  std::vector<Rank> ranks_;
  double said_s_ = steady_s();
};

}  // namespace

int host_agent_main() {
  try {
    return HostAgent().run();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    say_error("ddpbench: {}\n", failure.message);
    return failure.exit_code;
  }
}

}  // namespace ddpbench::bench
