// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/make_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"
#include "bench/host/host_limits.h"
#include "bench/launchers/agent_source.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/sweep_plan.h"

namespace ddpbench::bench {
namespace {

constexpr const char* kLocal = "local";
constexpr const char* kSsh = "ssh";
// Shells of several hosts at once must not ask for passwords: no user answers. A host that is gone
// is noticed within 15 s.
constexpr const char* kSecureShell =
    "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 "
    "-o ServerAliveCountMax=3";

bool is_loopback_host(const HostSlots& host) {
  const std::string name = host_address_of(host);
  return name == "localhost" || name.starts_with("127.");
}

// Others would look for rank 0 on themselves.
void check_first_host(const std::vector<HostSlots>& hosts) {
  if (hosts.empty() || !is_loopback_host(hosts.front()) ||
      std::ranges::all_of(hosts, is_loopback_host)) {
    return;
  }
  throw ConfigError(
      fmt::format("--hosts: the first host has rank 0, and the others would not reach it at {}; "
                  "give the name or address that it has for them",
                  hosts.front().name));
}

void refuse_unused(const std::string& value, std::string_view option, std::string_view launcher) {
  if (value.empty()) return;
  throw ConfigError(
      fmt::format("{}={}: it does nothing with --launcher={}", option, value, launcher));
}

// `launcher`: as it was given; empty: it was not.
void refuse_shared_processes(const Options& options, const std::string& launcher) {
  for (const RunCell& cell : plan_matrix(options)) {
    if (cell.devices_per_process == 1) continue;
    throw ConfigError(fmt::format(
        "--devices-per-process={}{}: each process that a launcher starts has one device",
        cell.devices_per_process, launcher.empty() ? "" : " --launcher=" + launcher));
  }
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace

LauncherChoice choose_launcher(const Options& options) {
  if (!options.hosts.empty() && !options.host_file.empty()) {
    throw ConfigError("--hosts and --hostfile exclude each other; give one of them");
  }
  LauncherChoice choice{.launcher = options.launcher, .hosts = {}};
  if (!options.hosts.empty()) choice.hosts = parse_host_list(options.hosts);
  if (!options.host_file.empty()) choice.hosts = read_host_file(options.host_file);
  if (choice.launcher.empty()) choice.launcher = choice.hosts.empty() ? kLocal : kSsh;
  if (choice.launcher == kLocal && !choice.hosts.empty()) {
    throw ConfigError(
        "--launcher=local starts ranks on this host only; leave out the hosts, or "
        "use --launcher=ssh");
  }
  if (choice.launcher == kSsh && choice.hosts.empty()) {
    throw ConfigError("--launcher=ssh needs --hosts or --hostfile");
  }
  if (choice.launcher != kSsh) {
    refuse_unused(options.remote_shell, "--remote-shell", choice.launcher);
    refuse_unused(options.remote_program, "--remote-program", choice.launcher);
  }
  if (choice.launcher == kLocal || choice.launcher == kSsh) {
    refuse_unused(options.launcher_arguments, "--launcher-args", choice.launcher);
  }
  if (choice.launcher != kLocal) refuse_shared_processes(options, choice.launcher);
  check_first_host(choice.hosts);
  return choice;
}

namespace {

// Agents of several hosts reach this one there; else on the loopback interface. Slurm's nodes know
// each other by their names.
std::string address_for_agents(const Options& options, const LauncherChoice& choice) {
  if (!options.interface.empty()) return find_interface(options.interface).address;
  if (choice.hosts.empty()) {
    const auto nodes = launch::environment_variable("SLURM_JOB_NUM_NODES").value_or("1");
    return nodes == "1" ? "127.0.0.1" : host_name();
  }
  return address_towards(host_address_of(choice.hosts.front()), wait_limit_s(options.timeout_s));
}

std::unique_ptr<AgentSource> agents_of(const Options& options, int most, LauncherChoice choice) {
  const auto port_text = launch::environment_variable("MASTER_PORT").value_or("");
  const int port = port_text.empty() ? kUsualPort : launch::parse_master_port(port_text);
  const AgentGreeting greeting{options.device, std::filesystem::current_path().string()};
  if (choice.launcher == kSsh) {
    return agents_behind_shell(
        {std::move(choice.hosts),
         options.remote_shell.empty() ? kSecureShell : options.remote_shell,
         options.remote_program.empty() ? own_path() : options.remote_program, greeting, port});
  }
  if (std::system(fmt::format("command -v {} > /dev/null", choice.launcher).c_str()) != 0) {
    throw UnavailableError(fmt::format("--launcher={0}: there is no {0} in PATH", choice.launcher));
  }
  LauncherStart start{.most = most,
                      .address = address_for_agents(options, choice),
                      .program = own_path(),
                      .greeting = greeting,
                      .limit_s = wait_limit_s(options.timeout_s),
                      .port = port};
  if (options.all_gpus) {
    start.most = choice.hosts.empty() ? device_count(find_devices(options.device), options.device)
                                      : count_slots(choice.hosts);
  }
  // An address is that of one host.
  return agents_of_launcher({choice.launcher, std::move(choice.hosts), options.launcher_arguments,
                             is_address(options.interface) ? "" : options.interface},
                            std::move(start));
}

}  // namespace

int most_processes(const Options& options) {
  return largest(plan_matrix(options), 1,
                 [](const RunCell& cell) { return cell.world_size + cell.servers; });
}

std::unique_ptr<RunHosts> make_hosts(const Options& options, int most,
                                     const std::optional<launch::RankEnvironment>& environment,
                                     const std::vector<std::string>& arguments) {
  if (environment && environment->world_size > 1) {
    catch_interrupts();
    return hosts_of_agents(agents_beside({.environment = *environment,
                                          .interface = options.interface,
                                          .arguments = common_arguments(arguments),
                                          .greeting = {options.device, ""},
                                          .limit_s = wait_limit_s(options.timeout_s)}));
  }
  LauncherChoice choice = choose_launcher(options);
  if (choice.launcher == kLocal) return nullptr;
  catch_interrupts();
  return hosts_of_agents(agents_of(options, most, std::move(choice)));
}

void fit_to_world(Options& options, const launch::RankEnvironment& environment) {
  const int processes = environment.world_size;
  const auto fit = [processes](Options& one) {
    const int servers = largest(plan_matrix(one), 0, &RunCell::servers);
    if (processes - servers < 1) {
      throw ConfigError(fmt::format("{} processes cannot be {} servers and at least 1 worker",
                                    processes, servers));
    }
    if (!one.gpus_given.is_set) one.gpus = {processes - servers};
    check_options(one);
  };
  fit(options);
  for (Options& entry : options.runs) fit(entry);
  refuse_shared_processes(options, "");
  const std::vector<RunCell> cells = plan_matrix(options);
  const std::size_t runs = cells.size() * static_cast<std::size_t>(options.repetitions);
  const bool has_engine = std::ranges::any_of(cells, [&options](const RunCell& cell) {
    return is_engine_of_launcher(entry_options(options, cell).backend);
  });
  if (!has_engine || (runs == 1 && !options.until_ci)) return;
  throw ConfigError(fmt::format(
      "--backend={}: MPI starts once in each process that {} started, which makes one run; use "
      "--launcher=mpirun for several",
      options.backend, starter_words(environment.launcher)));
}

void refuse_launchers(const Options& options, std::string_view why) {
  for (const auto& [option, value] :
       {std::pair("--launcher", &options.launcher), std::pair("--hosts", &options.hosts),
        std::pair("--hostfile", &options.host_file)}) {
    if (value->empty() || *value == kLocal) continue;
    throw ConfigError(fmt::format("{}={}: {}", option, *value, why));
  }
}

}  // namespace ddpbench::bench
