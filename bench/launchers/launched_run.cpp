// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/launched_run.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "bench/joined/joined_world.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "parallel/launch/rank_variables.h"

namespace ddpbench::bench {

std::string launched_run_text(Options options) {
  options.json_path = kStandardStream;
  if (!options.trace_path.empty()) options.trace_path = kStandardStream;
  options.quiet = true;
  options.force = false;
  options.launcher.clear();
  options.hosts.clear();
  options.host_file.clear();
  options.remote_shell.clear();
  options.remote_program.clear();
  options.launcher_arguments.clear();
  return to_json(options).dump();
}

Options launched_run_options(const std::string& text) {
  return options_from_json(parse_json(text, kLaunchedRunVariable));
}

std::map<std::string, std::string> launched_run_variables(const Options& options) {
  return {{kLaunchedRunVariable, launched_run_text(options)},
          {"DDPBENCH_JOB_SECRET", launch::make_secret()}};
}

std::vector<std::string> variables_to_drop() {
  std::vector<std::string> names = option_variables();
  for (const char* const name :
       {"DDPBENCH_LAUNCHER", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"}) {
    names.emplace_back(name);
  }
  return names;
}

int run_launched_rank(const std::string& text, const launch::GetVariable& get,
                      const std::vector<std::string>& arguments) {
  // srun gives a rank that is alone what an interactive shell gets, too.
  const launch::RankEnvironment alone;
  auto environment = launch::read_rank_environment(get).value_or(alone);
  environment.job_is_named = true;  // its secret is of this run alone
  return join_world(launched_run_options(text), environment, arguments, ReportReader::supervisor);
}

}  // namespace ddpbench::bench
