// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Agents that a remote shell starts, one on each host.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "bench/host/terminal.h"
#include "bench/launchers/agent_source.h"
#include "parallel/launch/grace_times.h"
#include "parallel/launch/piped_process.h"

namespace ddpbench::bench {
namespace {

class ShellAgents final : public AgentSource {
 public:
  ShellAgents(std::vector<HostSlots> hosts, std::string shell, std::string program,
              AgentGreeting greeting, int port)
      : hosts_(std::move(hosts)),
        shell_(std::move(shell)),
        program_(std::move(program)),
        greeting_(std::move(greeting)),
        port_(port) {
    greeting_.secret = launch::make_secret();
  }

  const std::vector<HostSlots>& agents() const override { return hosts_; }
  std::string address_of_first(const HostView&) const override {
    return host_address_of(hosts_.front());
  }
  int port() const override { return port_; }

  void connect(std::vector<HostLink>& links, const std::set<std::size_t>& wanted) override {
    for (const std::size_t host : wanted) {
      if (!links[host].lost().empty()) links[host] = link_to(hosts_[host].name);
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
                                        links[host].words(), shell_, hosts_[host].name,
                                        launch::kFirstWords_s));
      }
    }
    if (interrupt_requested()) throw Interrupted();
    std::vector<std::string> lost;
    for (const std::size_t host : wanted) {
      if (!links[host].lost().empty()) lost.push_back(links[host].lost());
    }
    if (!lost.empty()) throw CommError(fmt::format("{}", fmt::join(lost, "\n")));
  }

 private:
  HostLink link_to(const std::string& host) const {
    const launch::PipedProcess::Spec shell{
        {.executable = "/bin/sh",
         .arguments =
             launch::shell_arguments(shell_, {host, launch::remote_command(program_, kAgentWord)}),
         .environment = launch::child_variables(1, {})},
        true};
    return HostLink("host " + host, std::make_unique<launch::PipedProcess>(shell), greeting_);
  }

  const std::vector<HostSlots> hosts_;
  const std::string shell_, program_;
  AgentGreeting greeting_;
  const int port_;
};

}  // namespace

std::unique_ptr<AgentSource> agents_behind_shell(std::vector<HostSlots> hosts, std::string shell,
                                                 std::string program, AgentGreeting greeting,
                                                 int port) {
  return std::make_unique<ShellAgents>(std::move(hosts), std::move(shell), std::move(program),
                                       std::move(greeting), port);
}

}  // namespace ddpbench::bench
