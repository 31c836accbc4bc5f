// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The variables by which a launcher tells a process its place in the world. Our own supervisor and
// torchrun set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; mpirun OMPI_COMM_WORLD_* or PMI_*;
// srun SLURM_PROCID and SLURM_NTASKS. Only launch/ reads them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddpbench::launch {

using Variables = std::map<std::string, std::string>;

// All variables of this process's environment.
Variables environment_variables();

// nullopt: it is not set.
std::optional<std::string> environment_variable(const char* name);

struct RankEnvironment {
  int rank = 0;
  int local_rank = 0;  // LOCAL_RANK of our own ranks; of others it is not read
  int world_size = 1;
  std::string master_address = "127.0.0.1";
  // MASTER_ADDR is set, or Slurm's list of hosts names rank 0's.
  bool has_master_address = false;
  int master_port = 29500;
  // torchrun's agent itself listens on master_port (TORCHELASTIC_USE_AGENT_STORE=True). Our store
  // then takes the next free port after it.
  bool agent_store = false;
  std::string launcher;  // "ddpbench", "torchrun", "mpirun", "srun", "environment"
  // DDPBENCH_JOB_SECRET. Empty: the ranks are one user's on one host (bench/launchers/meeting.h).
  std::string secret;
  // What tells this job from others of the user: launcher, the launcher's name for the job, port,
  // number of the restart. The same on all ranks. No secret.
  std::string job;
  // "LOCAL_WORLD_SIZE=2 of WORLD_SIZE=4" where the variables say that ranks are on several hosts.
  std::string several_hosts;
  // DDPBENCH_RANK_HOST: its host's name in reports, where an agent started it and the ranks are on
  // several hosts; else empty.
  std::string host;
};

// nullopt when no launcher started this process. Throws ConfigError for incomplete or contradictory
// variables (RANK without WORLD_SIZE, rank not below the world size, not a number), naming them.
std::optional<RankEnvironment> read_rank_environment(const Variables& variables);

// Whether Open MPI's mpirun started this process, which gives its ranks terminals as their output.
bool has_terminal_of_mpirun();

// The port that a value of MASTER_PORT names. Throws ConfigError.
int parse_master_port(const std::string& text);

// Whether the variables say that a launcher started this process; it may have left some out.
bool names_launcher(const Variables& variables);

// The ranks of one run. They write to the supervisor's stderr.
struct LaunchSpec {
  std::string executable = "/proc/self/exe";
  std::vector<std::string> arguments;  // argv[1...]
  int ranks = 1;
  // How many ranks each process has, which share RANK: rank r is of process r / ranks_per_process.
  // Divides `ranks`.
  int ranks_per_process = 1;
  // OMP_NUM_THREADS. Ranks also get OMP_WAIT_POLICY=PASSIVE, and OMP_PROC_BIND=false because
  // devices pin themselves.
  int threads_per_device = 1;
  Variables environment;           // added to the inherited one
  std::vector<int> inherited_fds;  // stay open in the children, same numbers

  int processes() const { return ranks / ranks_per_process; }
};

// A secret that cannot be guessed: 256 random bits in hexadecimal.
std::string make_secret();

// "NAME=value" for all of our own environment except `without`, the OpenMP settings above, and
// `added`. Later ones replace earlier ones.
std::vector<std::string> child_variables(int threads_per_device, const Variables& added,
                                         const std::vector<std::string>& without = {});

}  // namespace ddpbench::launch
