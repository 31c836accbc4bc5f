// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The launcher that the options ask for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launchers/rank_hosts.h"
#include "bench/options/options.h"
#include "bench/run/launch_run.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// What the options of hosts and launchers amount to. Throws ConfigError where they contradict each
// other, or do nothing. Pure, but for the host file.
struct LauncherChoice {
  std::string launcher;  // local | ssh | mpirun | srun
  std::vector<HostSlots> hosts;
};
LauncherChoice choose_launcher(const Options& options);

// Where the ranks of the options' runs are: on the hosts that they name, behind the launcher that
// they name, or, where a launcher has started this process as rank 0 (`environment`), beside it.
// Null: here. `most`: processes of a run. Throws ConfigError, and CommError for hosts that cannot
// be used.
std::unique_ptr<RunHosts> make_hosts(const Options& options, int most,
                                     const std::optional<launch::RankEnvironment>& environment,
                                     const std::vector<std::string>& arguments);
// The processes of the largest run.
int most_processes(const Options& options);

// What the options say by leaving --gpus out where a launcher has started so many processes: all
// take part. Throws ConfigError where too few are there for the servers, where devices would share
// a process, or where a run's engine is the launcher's and there are several runs.
void fit_to_world(Options& options, const launch::RankEnvironment& environment);

// Throws ConfigError where the options name a launcher or hosts, with the reason `why`.
void refuse_launchers(const Options& options, std::string_view why);
// Why processes that a launcher started refuse them, and why commands that start their own runs do.
inline constexpr std::string_view kIsRank =
    "a launcher has started this process, whose hosts and processes are the launcher's; leave it "
    "out, or start ddpbench without that launcher";
inline constexpr std::string_view kRunsHere = "this command makes its runs on this host only";

}  // namespace ddpbench::bench
