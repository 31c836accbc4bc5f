// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The variables by which a launcher tells a process its place in the world. Our own supervisor and
// torchrun set RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; mpirun OMPI_COMM_WORLD_*
// or PMI_*; srun SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS. Only launch/ reads them.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ddpbench::launch {

struct RankEnvironment {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  // torchrun's agent itself listens on master_port (TORCHELASTIC_USE_AGENT_STORE=True). Our store
  // then takes the next free port after it.
  bool agent_store = false;
  std::string launcher;  // "ddpbench", "torchrun", "mpirun", "srun", "environment"
  // DDPBENCH_JOB_SECRET, or derived from TORCHELASTIC_RUN_ID or the job's id. A derived secret
  // (`derived_secret`) is accepted on loopback only.
  std::string secret;
  bool derived_secret = false;
};

using GetVariable = std::function<const char*(const char*)>;

// nullopt when no launcher started this process. Throws ConfigError for incomplete or contradictory
// variables (RANK without WORLD_SIZE, rank not below the world size, not a number), naming them.
std::optional<RankEnvironment> read_rank_environment(const GetVariable& get);

}  // namespace ddpbench::launch
