// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The environment that the supervisor gives to a rank.
#include "parallel/launch/rank_variables.h"

#include <cstddef>
#include <map>

#include "base/entropy.h"
#include "parallel/launch/own_environment.h"

namespace ddpbench::launch {
namespace {

using Variables = std::map<std::string, std::string>;

// libgomp reads these when it is loaded, so only a parent can set them. Passive: a thread that
// spins after its share of work takes the core from the communication thread. Unbound: each device
// binds its own threads, and libgomp would give all ranks the same cores.
void set_openmp(Variables& variables, int threads) {
  variables["OMP_NUM_THREADS"] = std::to_string(threads);
  variables["OMP_WAIT_POLICY"] = "PASSIVE";
  variables["OMP_PROC_BIND"] = "false";
  variables.erase("OMP_PLACES");
  variables.erase("GOMP_CPU_AFFINITY");
}

std::vector<std::string> block_of(const Variables& variables) {
  std::vector<std::string> block;
  for (const auto& [name, value] : variables) block.push_back(name + "=" + value);
  return block;
}

}  // namespace

std::string make_secret() {
  constexpr std::size_t kSecretBytes = 32;
  return random_hex(kSecretBytes);
}

std::vector<std::string> child_variables(int threads_per_device, const Variables& added,
                                         const std::vector<std::string>& without) {
  Variables variables = environment_variables();
  for (const std::string& name : without) variables.erase(name);
  set_openmp(variables, threads_per_device);
  for (const auto& [name, value] : added) variables[name] = value;
  return block_of(variables);
}

std::vector<std::string> rank_variables(const LaunchSpec& spec, int process,
                                        const Rendezvous& rendezvous) {
  Variables variables = environment_variables();
  set_openmp(variables, spec.threads_per_device);
  for (const auto& [name, value] : spec.environment) variables[name] = value;
  variables["DDPBENCH_LAUNCHER"] = "ddpbench";
  variables["DDPBENCH_JOB_SECRET"] = rendezvous.secret;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(rendezvous.port);
  if (rendezvous.port == 0) variables.erase("MASTER_PORT");
  variables["WORLD_SIZE"] = std::to_string(spec.processes());
  variables["RANK"] = std::to_string(process);
  variables["LOCAL_RANK"] = std::to_string(process);
  return block_of(variables);
}

}  // namespace ddpbench::launch
