// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_source.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/launchers/meeting.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/grace_times.h"
#include "parallel/launch/open_files.h"
#include "parallel/launch/piped_process.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kMpirun = "mpirun";

// One on each host, that a remote shell starts.
class ShellAgents final : public AgentSource {
 public:
  explicit ShellAgents(ShellStart start) : start_(std::move(start)) {
    start_.greeting.secret = launch::make_secret();
  }

  const std::vector<HostSlots>& agents() const override { return start_.hosts; }
  std::string address_of_first(const HostView&) const override {
    return host_address_of(start_.hosts.front());
  }
  int port() const override { return start_.port; }

  void connect(std::vector<HostLink>& links, const std::set<std::size_t>& wanted) override {
    for (const std::size_t host : wanted) {
      if (!links[host].lost().empty()) links[host] = link_to(start_.hosts[host].name);
    }
    const double limit_s = steady_s() + launch::kFirstWords_s;
    const auto waits = [&](std::size_t host) {
      return links[host].lost().empty() && links[host].view() == nullptr;
    };
    while (std::ranges::any_of(wanted, waits) && !interrupt_requested()) {
      listen(links);
      for (const std::size_t host : wanted) {
        if (!waits(host) || steady_s() < limit_s) continue;
        links[host].give_up(fmt::format("{}: it cannot be used: `{} {}` said nothing for {:.3g} s",
                                        links[host].words(), start_.shell, start_.hosts[host].name,
                                        launch::kFirstWords_s));
      }
    }
    if (interrupt_requested()) throw Interrupted();
    std::vector<std::string> lost =
        mapped(wanted, [&](std::size_t host) { return links[host].lost(); });
    std::erase(lost, "");
    if (!lost.empty()) throw CommError(joined(lost, "\n"));
  }

 private:
  HostLink link_to(const std::string& host) const {
    const launch::PipedProcess::Spec shell{
        {.executable = "/bin/sh",
         .arguments = launch::shell_arguments(
             start_.shell, {host, launch::remote_command(start_.program, kAgentWord)}),
         .environment = launch::child_variables(1, {})},
        true};
    return HostLink("host " + host, std::make_unique<launch::PipedProcess>(shell), start_.greeting);
  }

  ShellStart start_;
};

// Agents that mpirun, srun, torchrun or a user's own script start, one for each rank. They come to
// the supervisor by themselves: these have come, until each has said its rank.
class Arrivals {
 public:
  // `links`: [rank]. `arguments`: what each agent's command line must be.
  Arrivals(AgentListener& listener, std::vector<HostLink>& links, const AgentGreeting& greeting,
           std::string arguments)
      : listener_(listener), links_(links), greeting_(greeting), arguments_(std::move(arguments)) {}

  // Waits until the first `count` are here. `check` is called often. Throws ConfigError for those
  // that do not fit each other.
  void await(std::size_t count, double limit_s, const std::function<void()>& check) {
    const double begin_s = steady_s();
    double said_s = 0;
    while (!missing(count).empty()) {
      std::vector<pollfd> watched;
      listener_.watch(watched);
      for (const HostLink& guest : guests_) guest.watch(watched);
      for (const HostLink& link : links_) link.watch(watched);
      ::poll(watched.data(), watched.size(), kLookAtAgentsMs);
      if (interrupt_requested()) throw Interrupted();
      check();
      look(count);
      const double waited_s = steady_s() - begin_s;
      if (waited_s >= limit_s) {
        throw CommTimeout(
            fmt::format("{} did not come within {:g} s (--timeout)", missing(count), limit_s));
      }
      if (waited_s < said_s + kSayEvery_s) continue;
      said_s = waited_s;
      say_error(
          "ddpbench: rank 0: waiting for {} of {} to come, {:.0f} s of {:.0f} s (--timeout)\n",
          missing(count), count, waited_s, limit_s);
    }
  }

  // Lets those end that have come too early or too late for a rank.
  ~Arrivals() {
    for (HostLink& guest : guests_) guest.close({exit_code_, ""});
  }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

 private:
  std::string missing(std::size_t count) const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < count && ranks.size() <= 10; ++rank) {
      if (links_[rank].view() == nullptr) ranks.push_back(static_cast<int>(rank));
    }
    if (ranks.empty()) return "";
    return fmt::format("{} {}", plural(ranks.size(), "rank"), short_list(ranks));
  }

  void look(std::size_t count) {
    for (FileDescriptor& socket : listener_.take()) {
      guests_.emplace_back("the process of a rank",
                           std::make_unique<launch::PipedProcess>(std::move(socket)), greeting_);
    }
    for (HostLink& link : links_) {
      link.look();
      if (!link.words().empty() && link.is_lost()) throw CommError(link.lost());
    }
    for (HostLink& guest : guests_) {
      guest.look();
      if (guest.view() != nullptr) {
        seat(guest, count);
      } else if (!guest.lost().empty()) {
        throw CommError(guest.lost());
      }
    }
    std::erase_if(guests_, [](const HostLink& guest) { return guest.has_closed(); });
  }

  void seat(HostLink& guest, std::size_t count) {
    const HostView& view = *guest.view();
    const auto rank = static_cast<std::size_t>(view.rank);
    if (view.world_size != static_cast<int>(count)) {
      refuse(fmt::format("WORLD_SIZE is {} on rank {} but {} on rank 0", view.world_size, rank,
                         count));
    }
    if (view.arguments != arguments_) {
      refuse(
          fmt::format("the ranks have different command lines: `{}` on rank {} but `{}` on rank 0",
                      printable(view.arguments), rank, printable(arguments_)));
    }
    if (rank >= count || links_[rank].view() != nullptr) {
      guest.close({ConfigError("").exit_code(),
                   fmt::format("there are two ranks {} in this job: another was first; give each "
                               "job another MASTER_PORT, or a DDPBENCH_JOB_SECRET of its own",
                               rank)});
      guest.give_up("it was refused");
      return;
    }
    guest.rename(fmt::format("rank {} on {}", rank, view.name));
    links_[rank] = std::exchange(guest, HostLink());
  }

  [[noreturn]] void refuse(const std::string& why) {
    exit_code_ = ConfigError("").exit_code();
    throw ConfigError(why);
  }

  AgentListener& listener_;
  std::vector<HostLink>& links_;
  const AgentGreeting& greeting_;
  const std::string arguments_;
  std::vector<HostLink> guests_;
  int exit_code_ = 0;  // of guests that are left
};

std::vector<HostSlots> slot_each(int count) {
  return mapped(std::views::iota(0, count), [](int rank) {
    return HostSlots{fmt::format("rank {}", rank), 1};
  });
}

class AgentsBeside final : public AgentSource {
 public:
  explicit AgentsBeside(JoinedStart start)
      : start_(std::move(start)),
        agents_(slot_each(start_.environment.world_size)),
        listener_(start_.environment, start_.interface, start_.limit_s) {
    if (listener_.is_local()) start_.greeting.secret = listener_.secret();
  }

  const std::vector<HostSlots>& agents() const override { return agents_; }
  std::string launcher() const override { return start_.environment.launcher; }
  bool starts_anew() const override { return false; }
  std::string address_of_first(const HostView&) const override {
    return start_.environment.master_address;
  }
  int port() const override { return listener_.port(); }

  void connect(std::vector<HostLink>& links, const std::set<std::size_t>& /*wanted*/) override {
    launch::allow_open_files_of_listener(links.size());
    AgentGreeting own = start_.greeting;
    own.secret = listener_.secret();
    const launch::PipedProcess::Spec program{
        {.executable = "/proc/self/exe",
         .arguments = {"ddpbench", kAgentWord},
         .environment = launch::child_variables(1, {{kSupervisorVariable, ""}})},
        true};
    links.front() = HostLink("rank 0", std::make_unique<launch::PipedProcess>(program), own);
    Arrivals(listener_, links, start_.greeting, start_.arguments)
        .await(links.size(), start_.limit_s, [] {});
    listener_.all_are_here();
  }

 private:
  JoinedStart start_;
  const std::vector<HostSlots> agents_;
  AgentListener listener_;
};

// mpirun of Open MPI waits for hosts that it cannot reach until TCP gives them up, and so do its
// daemons there. What the user has set stays, and so does what he gives it as arguments.
std::map<std::string, std::string> mpirun_variables(const std::string& interface, double limit_s) {
  const int idle_s = static_cast<int>(std::ceil(limit_s > 0 ? limit_s : launch::kFirstWords_s));
  std::map<std::string, std::string> variables = {
      {"OMPI_MCA_oob_tcp_keepalive_time", std::to_string(idle_s)},
      {"OMPI_MCA_oob_tcp_keepalive_intvl", "1"},
      {"OMPI_MCA_oob_tcp_keepalive_probes", "3"}};
  if (!interface.empty()) {
    variables["OMPI_MCA_oob_tcp_if_include"] = interface;  // of the daemons
    variables["OMPI_MCA_btl_tcp_if_include"] = interface;  // of MPI's messages
  }
  std::erase_if(variables, [](const auto& one) { return ::getenv(one.first.c_str()) != nullptr; });
  return variables;
}

std::string host_words(const LauncherCommand& command) {
  return joined(command.hosts, ",", [&command](const HostSlots& host) {
    const std::string name = host_address_of(host);
    return command.name == kMpirun ? fmt::format("{}:{}", name, host.slots) : name;
  });
}

class AgentsOfLauncher final : public AgentSource {
 public:
  AgentsOfLauncher(LauncherCommand command, LauncherStart start)
      : command_(std::move(command)),
        start_(std::move(start)),
        agents_(slot_each(start_.most)),
        listener_(start_.address) {}
  ~AgentsOfLauncher() override { end(); }

  const std::vector<HostSlots>& agents() const override { return agents_; }
  std::string launcher() const override { return command_.name; }
  std::string address_of_first(const HostView& first) const override {
    return command_.hosts.empty() ? first.name : host_address_of(command_.hosts.front());
  }
  int port() const override { return start_.port; }

  // Starts all that are wanted, and those before them, anew.
  void connect(std::vector<HostLink>& links, const std::set<std::size_t>& wanted) override {
    const auto is_lost = [&](std::size_t rank) { return !links[rank].lost().empty(); };
    if (std::ranges::none_of(wanted, is_lost)) return;
    for (HostLink& link : links) {
      link.close({});
      link = HostLink();
    }
    end();
    const std::size_t count = *wanted.rbegin() + 1;
    begin(count);
    Arrivals(listener_, links, start_.greeting, "").await(count, start_.limit_s, [this] {
      check_launcher();
    });
  }

 private:
  void begin(std::size_t count) {
    std::map<std::string, std::string> variables = {
        {kSupervisorVariable, listener_.words()}, {kSupervisorSecretVariable, listener_.secret()}};
    const std::vector<std::string> handed_on = {kSupervisorVariable, kSupervisorSecretVariable};
    if (command_.name == kMpirun)
      variables.merge(mpirun_variables(command_.interface, start_.limit_s));
    const auto cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    launch::ChildSpec spec;
    spec.executable = "/bin/sh";
    spec.arguments =
        launch::shell_arguments(launcher_words(command_, static_cast<int>(count), cores, handed_on),
                                {start_.program, kAgentWord});
    spec.environment = launch::child_variables(1, variables);
    spec.death_signal = SIGTERM;  // then it ends its processes
    process_.emplace(spec);
  }

  void check_launcher() {
    const auto& exit = process_->reap();
    if (!exit) return;
    throw CommError(fmt::format("{} ended with {} before its processes were here", command_.name,
                                exit->signal != 0 ? fmt::format("signal {}", exit->signal)
                                                  : fmt::format("exit code {}", exit->code)));
  }

  // mpirun of Open MPI 4.1 is known to lock up in its own end. SIGTERM lets it end its daemons.
  void end() {
    if (!process_) return;
    for (const int signal : {0, SIGTERM}) {
      if (process_->alive() && signal != 0) process_->signal(signal);
      const double until_s = steady_s() + launch::kLetEnd_s;
      while (process_->alive() && steady_s() < until_s) {
        pollfd watched{process_->watch_fd(), POLLIN, 0};
        ::poll(&watched, 1, kLookAtAgentsMs);
        process_->reap();
      }
    }
    process_.reset();
  }

  const LauncherCommand command_;
  const LauncherStart start_;
  const std::vector<HostSlots> agents_;
  AgentListener listener_;
  std::optional<launch::ChildProcess> process_;
};

}  // namespace

std::string launcher_words(const LauncherCommand& command, int processes, int cores,
                           const std::vector<std::string>& variables) {
  std::string words = fmt::format("{} -n {}", command.name, processes);
  if (command.name == kMpirun) {
    if (!command.hosts.empty()) words += " --host " + host_words(command);
    const bool beyond =
        command.hosts.empty() ? processes > cores : processes > count_slots(command.hosts);
    if (beyond) words += " --oversubscribe";
    for (const std::string& name : variables) words += " -x " + name;
  } else {
    words += " --kill-on-bad-exit=1";  // as mpirun does; else a rank that is stopped would stay
    if (!command.hosts.empty()) words += " --nodelist=" + host_words(command);
  }
  if (!command.arguments.empty()) words += " " + command.arguments;
  return words;
}

std::unique_ptr<AgentSource> agents_behind_shell(ShellStart start) {
  return std::make_unique<ShellAgents>(std::move(start));
}

std::unique_ptr<AgentSource> agents_beside(JoinedStart start) {
  return std::make_unique<AgentsBeside>(std::move(start));
}

std::unique_ptr<AgentSource> agents_of_launcher(LauncherCommand command, LauncherStart start) {
  return std::make_unique<AgentsOfLauncher>(std::move(command), std::move(start));
}

}  // namespace ddpbench::bench
