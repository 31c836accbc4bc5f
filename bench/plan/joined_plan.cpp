// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/joined_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {

void refuse_lists(const Options& options) {
  std::vector<std::string> refused = listed_options(options);
  if (options.repetitions > 1) refused.emplace_back("--repetitions");
  if (options.until_ci) refused.emplace_back("--until-ci");
  if (!options.resume_path.empty()) refused.emplace_back("--resume");
  if (refused.empty()) return;
  throw ConfigError(
      fmt::format("{}: a world that torchrun, mpirun or srun started makes one run, so lists, "
                  "repetitions and resuming are not for it; start ddpbench itself for a comparison",
                  fmt::join(refused, ", ")));
}

RunCell joined_cell(const Options& options, int processes, int devices) {
  RunCell cell = plan_matrix(options).at(0);
  const bool one_process = strategy_traits(cell.strategy).one_process;
  if (one_process && processes != 1) {
    throw ConfigError(fmt::format("--strategy={} is one process, but the launcher started {}",
                                  cell.strategy, processes));
  }
  const int workers = processes - cell.servers;
  if (workers < 1) {
    throw ConfigError(fmt::format("{} processes cannot be {} servers and at least 1 worker",
                                  processes, cell.servers));
  }
  if (options.all_gpus) {
    cell.world_size = one_process ? devices : workers;
    return cell;
  }
  const int asked = options.gpus.at(0);
  cell.world_size = one_process ? asked : workers;
  // 1 is the default: then the launcher alone decides.
  if (!one_process && asked != 1 && asked != workers) {
    throw ConfigError(
        fmt::format("--gpus={}, but the launcher started {} workers", asked, workers));
  }
  return cell;
}

int cpu_servers(const Options& options) {
  return options.server_device == "cpu" ? plan_matrix(options).at(0).servers : 0;
}

}  // namespace ddpbench::bench
