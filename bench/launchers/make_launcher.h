// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The launcher that the options ask for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launchers/host_list.h"
#include "bench/options/options.h"
#include "bench/run/launch_run.h"

namespace ddpbench::bench {

// What the options of hosts and launchers amount to. Throws ConfigError where they contradict each
// other, or do nothing. Pure, but for the host file.
struct LauncherChoice {
  std::string launcher;  // local | ssh | mpirun | srun
  std::vector<HostSlots> hosts;
};
LauncherChoice choose_launcher(const Options& options);

// Returns null where this process starts the ranks. `master_port`: MASTER_PORT, empty when it is
// not set. Throws ConfigError, and CommError for hosts that cannot be used.
std::unique_ptr<RunPlaces> make_launcher(const Options& options, const std::string& master_port);

// Throws ConfigError where the options name a launcher or hosts, with the reason `why`.
void refuse_launchers(const Options& options, std::string_view why);
// Why ranks that a launcher started refuse them, and why commands that start their own runs do.
inline constexpr std::string_view kIsRank =
    "a launcher has started this process as a rank, and ranks start no others; leave it out, or "
    "start ddpbench without that launcher";
inline constexpr std::string_view kRunsHere = "this command makes its runs on this host only";

}  // namespace ddpbench::bench
