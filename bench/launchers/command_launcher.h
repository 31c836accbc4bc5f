// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommandLauncher: has mpirun or srun start the ranks, once for each run.
#pragma once

#include <string>
#include <vector>

#include "bench/launchers/host_list.h"
#include "bench/run/launch_run.h"

namespace ddpbench::bench {

// What the launcher's command line is made of.
struct LauncherCommand {
  std::string name;              // mpirun | srun
  std::vector<HostSlots> hosts;  // empty: where the launcher puts the ranks
  std::string arguments;         // of the user, quoted as in a shell
  // The network interface that mpirun and MPI are to use, by a name that it has on all hosts.
  // Empty: they choose.
  std::string interface = {};
};

// The command without the program, for a shell, that starts so many processes with `variables` (by
// name; the launcher's own environment has their values). Pure. `cores`: of this machine, beyond
// which Open MPI must be allowed to go.
std::string launcher_words(const LauncherCommand& command, int processes, int cores,
                           const std::vector<std::string>& variables);

class CommandLauncher final : public RunLauncher {
 public:
  // `program`: this program's path, the same on all hosts.
  CommandLauncher(LauncherCommand command, std::string program)
      : command_(std::move(command)), program_(std::move(program)) {}

  void find_devices(HostDevices& devices) const override { devices.launcher = command_.name; }
  std::optional<int> slots() const override;
  void describe(report::Environment&) const override {}
  std::string backend(const Options& options, const RunCell& cell) const override;
  LaunchedRun run(const TrainingJob& job, const Options& options,
                  const std::function<void()>& tick) override;

 private:
  LauncherCommand command_;
  std::string program_;
};

}  // namespace ddpbench::bench
