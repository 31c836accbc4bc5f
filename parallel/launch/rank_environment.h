// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The variables by which a launcher tells a process its place in the world: our own supervisor and
// torchrun (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), mpirun (OMPI_COMM_WORLD_*,
// PMI_*), srun (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS). Only launch/ reads them.
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
  // torchrun's agent listens on master_port itself (TORCHELASTIC_USE_AGENT_STORE=True): our store
  // takes the next free port after it.
  bool agent_store = false;
  std::string launcher;  // "ddpbench", "torchrun", "mpirun", "srun", "environment"
  // DDPBENCH_JOB_SECRET, or derived from TORCHELASTIC_RUN_ID / the job's id; the latter are
  // accepted on loopback only (`derived_secret`).
  std::string secret;
  bool derived_secret = false;
};

using GetVariable = std::function<const char*(const char*)>;

// nullopt when no launcher started this process. Throws ConfigError for incomplete or contradictory
// variables (RANK without WORLD_SIZE, rank not below the world size, not a number), naming them.
std::optional<RankEnvironment> read_rank_environment(const GetVariable& get);

}  // namespace ddpbench::launch
