// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/command_launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/host_network.h"
#include "bench/host/terminal.h"
#include "bench/joined/joined_hosts.h"
#include "bench/joined/report_inbox.h"
#include "bench/launchers/launched_run.h"
#include "bench/launchers/ssh_launcher.h"
#include "parallel/launch/piped_process.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kMpirun = "mpirun";
// Once the ranks have reported a failure, the launcher has this time to end all. mpirun waits
// longer for hosts that it cannot reach, and now and then for itself. Then it is asked to end, and
// killed.
constexpr double kClearUp_s = 3.5, kForce_s = 1;
// For reports on their way: at each look, and when the launcher has ended.
constexpr double kLook_s = 0.1, kLastLook_s = 1;
constexpr std::size_t kAfterReport = 1;  // the signal for the ranks' report is not needed

// One run, which one process starts and represents. It may stay though its ranks are gone: mpirun
// of Open MPI 4.1 is known to lock up in its own end.
class LauncherRun {
 public:
  // `inbox`: where the reports come, beside the process's output; null: nowhere else.
  LauncherRun(const std::string& name, const launch::PipedProcess::Spec& spec, ReportInbox* inbox,
              double timeout_s)
      : name_(name), timeout_s_(timeout_s), process_(spec), inbox_(inbox) {}

  LaunchedRun supervise(const std::function<void()>& tick) {
    while (!outcome_.has_ended()) {
      look();
      if (tick) tick();
      limit_end(steady_s());
    }
    take_reports(kLastLook_s);
    return outcome_.conclude(interrupted_);
  }

 private:
  void look() {
    std::vector<pollfd> watched;
    process_.watch(watched);
    ::poll(watched.data(), watched.size(), kLookAtRunMs);
    const bool ended = process_.look();
    for (const std::string& line : process_.take_output()) outcome_.add_output(line);
    // `mpirun --tag-output` would name the rank of a line. In Open MPI 4.1 it loses lines where
    // many short ones come at once, and puts tags inside of lines.
    for (const std::string& line : process_.take_errors()) {
      say_error("[{}] {}\n", name_, printable(line));
      outcome_.add_error(line);
    }
    take_reports(kLook_s);
    if (ended) outcome_.end(process_.how_ended());
  }

  void limit_end(double now_s) {
    limit_.move(clock_.look(now_s));
    if (!given_up_ && outcome_.is_given_up()) {
      given_up_ = true;
      limit_.after_failure(now_s, timeout_s_);
    }
    if (!reported_ && outcome_.has_report()) {
      reported_ = true;
      limit_.within(now_s, EndLimit::kReported_s);
    }
    const bool interrupts = !interrupted_ && interrupt_requested();
    if (interrupts) interrupted_ = true;
    if (!failed_ && !interrupted_ && outcome_.has_failed_report()) {
      failed_ = true;
      limit_.within(now_s, kClearUp_s);
    }
    if (interrupts || limit_.passed(now_s)) help_to_end(now_s);
  }

  void take_reports(double wait_s) {
    if (inbox_ == nullptr) return;
    for (const HostReport& report : inbox_->take(wait_s)) {
      outcome_.add_report(report.host, report.text);
    }
  }

  // Both launchers hand SIGUSR1 on to the ranks, which end with a report. At SIGTERM Open MPI ends
  // them itself within a second, and srun at once by SIGKILL: what they write may be lost. Ranks
  // that have reported, or have had their time for it, need no SIGUSR1.
  void help_to_end(double now_s) {
    constexpr std::array kSignals = {SIGUSR1, SIGTERM, SIGKILL};
    if (reported_ || given_up_) tries_ = std::max(tries_, kAfterReport);
    process_.signal(kSignals.at(std::min(tries_, kSignals.size() - 1)));
    ++tries_;
    limit_.renew(now_s);
    if (failed_) limit_.within(now_s, kForce_s);
  }

  std::string name_;
  double timeout_s_;
  launch::PipedProcess process_;
  ReportInbox* inbox_;
  RunOutcome outcome_;
  EndLimit limit_;
  launch::PauseLog clock_{steady_s()};
  bool interrupted_ = false, given_up_ = false, reported_ = false, failed_ = false;
  std::size_t tries_ = 0;
};

// The ranks are not on this host alone, and reach it at its address towards them.
std::unique_ptr<ReportInbox> make_inbox(const std::vector<HostSlots>& hosts, double timeout_s) {
  try {
    const std::string address =
        hosts.empty() ? "127.0.0.1" : address_towards(host_address_of(hosts.front()), timeout_s);
    return std::make_unique<ReportInbox>(address);
  } catch (const Error& error) {
    say_error("reports of ranks come by their standard output alone: {}\n", error.what());
    return nullptr;
  }
}

// mpirun of Open MPI waits for hosts that it cannot reach until TCP gives them up, and so do its
// daemons there. When it ends a job, its ranks get a second from SIGTERM to SIGKILL, in which one
// on a busy machine does not write its report. What the user has set stays.
std::map<std::string, std::string> patience_variables(double timeout_s) {
  constexpr int kWithoutTimeout_s = 60;
  const int idle_s = timeout_s > 0 ? static_cast<int>(std::ceil(timeout_s)) : kWithoutTimeout_s;
  std::map<std::string, std::string> variables = {
      {"OMPI_MCA_oob_tcp_keepalive_time", std::to_string(idle_s)},
      {"OMPI_MCA_oob_tcp_keepalive_intvl", "1"},
      {"OMPI_MCA_oob_tcp_keepalive_probes", "3"},
      {"OMPI_MCA_odls_base_sigkill_timeout", "2"}};
  std::erase_if(variables, [](const auto& one) { return ::getenv(one.first.c_str()) != nullptr; });
  return variables;
}

std::string host_words(const LauncherCommand& command) {
  std::vector<std::string> words;
  for (const HostSlots& host : command.hosts) {
    const std::string name = host_address_of(host);
    words.push_back(command.name == kMpirun ? fmt::format("{}:{}", name, host.slots) : name);
  }
  return fmt::format("{}", fmt::join(words, ","));
}

// Open MPI refuses a parameter that is given twice.
std::string interface_words(const LauncherCommand& command) {
  std::string words;
  if (command.interface.empty()) return words;
  for (const std::string_view name : {"oob_tcp_if_include", "btl_tcp_if_include"}) {
    if (command.arguments.find(name) != std::string::npos) continue;
    words += fmt::format(" --mca {} {}", name, shell_quoted(command.interface));
  }
  return words;
}

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
    words += interface_words(command);
  } else {
    words += " --kill-on-bad-exit=1";  // as mpirun does; else a rank that is stopped would stay
    if (!command.hosts.empty()) words += " --nodelist=" + host_words(command);
  }
  if (!command.arguments.empty()) words += " " + command.arguments;
  return words;
}

std::optional<int> CommandLauncher::slots() const {
  if (command_.hosts.empty()) return std::nullopt;
  return count_slots(command_.hosts);
}

// Two names count as two hosts: whether they mean the same one is not known here.
std::string CommandLauncher::backend(const Options& options, const RunCell& cell) const {
  if (command_.hosts.empty()) return options.backend;
  return backend_on(command_.hosts, options, cell, [this](std::size_t host) {
    const std::string& name = command_.hosts[host].name;
    return JoinedHosts::Member{name, name};
  });
}

LaunchedRun CommandLauncher::run(const TrainingJob& job, const Options& options,
                                 const std::function<void()>& tick) {
  if (interrupt_requested()) return {.interrupted = true};
  const auto [workers, servers] = processes_of(job.cell);
  auto variables = launched_run_variables(options);
  const auto inbox = make_inbox(command_.hosts, options.timeout_s);
  if (inbox) variables[kReportInboxVariable] = inbox->words();
  if (command_.hosts.size() > 1) {
    variables["MASTER_ADDR"] = host_address_of(command_.hosts.front());
  }
  std::set<std::string> handed_on = {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND"};
  for (const auto& [name, value] : variables) handed_on.insert(name);
  for (const char* const name : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (::getenv(name) != nullptr) handed_on.insert(name);
  }
  const auto cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (command_.name == kMpirun) variables.merge(patience_variables(options.timeout_s));
  launch::PipedProcess::Spec spec;
  spec.executable = "/bin/sh";
  spec.arguments = launch::shell_arguments(
      launcher_words(command_, workers + servers, cores, {handed_on.begin(), handed_on.end()}),
      {program_});
  spec.environment =
      launch::child_variables(options.threads_per_device, variables, variables_to_drop());
  // Should this process be killed, the launcher still ends the ranks.
  spec.death_signal = SIGTERM;
  return LauncherRun(command_.name, spec, inbox.get(), options.timeout_s).supervise(tick);
}

}  // namespace ddpbench::bench
