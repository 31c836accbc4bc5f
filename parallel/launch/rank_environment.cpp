// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the variables by which launchers tell a process its place in the world.
#include "parallel/launch/rank_environment.h"

#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddpbench::launch {
namespace {

// The variables of one launcher. Of several alternatives the first that is set counts.
struct LauncherVariables {
  const char* launcher;
  std::vector<const char*> rank;
  std::vector<const char*> local_rank;
  std::vector<const char*> world_size;
  std::vector<const char*> local_size;  // how many of the ranks are on this host; may be absent
  std::vector<const char*> job_id;
};

class Reader {
 public:
  explicit Reader(const GetVariable& get) : get_(get) {}

  // An empty value counts as absent, because shells pass on unset variables in this way.
  std::optional<std::string> text(const char* name) const {
    const char* const value = get_(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  }

  bool has(const char* name) const { return text(name).has_value(); }

  std::optional<std::string> first(const std::vector<const char*>& names) const {
    for (const char* const name : names) {
      if (auto value = text(name)) return value;
    }
    return std::nullopt;
  }

  int number(const std::vector<const char*>& names, const char* launcher) const {
    for (const char* const name : names) {
      if (const auto value = text(name)) return parse(name, *value);
    }
    throw ConfigError(
        fmt::format("{} is not set, though {} is said to have started this process; "
                    "set it, or unset the other rank variables",
                    names.front(), launcher));
  }

 private:
  static int parse(const char* name, const std::string& text) {
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stopped != end || value < 0) {
      throw ConfigError(fmt::format("{}={} is not a number from 0 to 2147483647", name, text));
    }
    return value;
  }

  const GetVariable& get_;
};

LauncherVariables mpi_variables(const Reader& reader) {
  if (reader.has("OMPI_COMM_WORLD_RANK")) {
    return {"mpirun",
            {"OMPI_COMM_WORLD_RANK"},
            {"OMPI_COMM_WORLD_LOCAL_RANK"},
            {"OMPI_COMM_WORLD_SIZE"},
            {"OMPI_COMM_WORLD_LOCAL_SIZE"},
            {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}};
  }
  // MPICH and Intel MPI (Hydra), also as `srun --mpi=pmi2` sets them.
  return {"mpirun",     {"PMI_RANK"},        {"MPI_LOCALRANKID", "SLURM_LOCALID"},
          {"PMI_SIZE"}, {"MPI_LOCALNRANKS"}, {"PMI_JOBID", "PMI_KVS", "SLURM_JOB_ID"}};
}

// Finds the launcher whose variables are set. mpirun comes before srun: below an mpirun that uses
// srun, SLURM_PROCID counts mpirun's own daemons.
std::optional<LauncherVariables> find_launcher(const Reader& reader) {
  const bool own = reader.text("DDPBENCH_LAUNCHER") == "ddpbench";
  const bool elastic = reader.has("TORCHELASTIC_RUN_ID");
  if (reader.has("RANK") || own) {
    return LauncherVariables{own       ? "ddpbench"
                             : elastic ? "torchrun"
                                       : "environment",
                             {"RANK"},
                             {"LOCAL_RANK"},
                             {"WORLD_SIZE"},
                             {"LOCAL_WORLD_SIZE"},
                             {"TORCHELASTIC_RUN_ID"}};
  }
  if (reader.has("OMPI_COMM_WORLD_RANK") || reader.has("PMI_RANK")) return mpi_variables(reader);
  // Without SLURM_STEP_ID this is a batch script, and with one task it may be an interactive shell.
  // Both see SLURM_PROCID=0, but no other rank will join.
  if (reader.has("SLURM_PROCID") && reader.has("SLURM_STEP_ID") &&
      reader.first({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) != "1") {
    return LauncherVariables{
        "srun", {"SLURM_PROCID"}, {"SLURM_LOCALID"}, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
        {},     {"SLURM_JOB_ID"}};
  }
  for (const char* const name : {"WORLD_SIZE", "LOCAL_RANK"}) {
    if (reader.has(name)) {
      throw ConfigError(fmt::format(
          "{} is set but RANK is not; set RANK to join a world, or unset {}", name, name));
    }
  }
  return std::nullopt;
}

void read_place(const Reader& reader, const LauncherVariables& names, RankEnvironment& result) {
  result.launcher = names.launcher;
  result.world_size = reader.number(names.world_size, names.launcher);
  result.rank = reader.number(names.rank, names.launcher);
  result.local_rank = reader.number(names.local_rank, names.launcher);
  if (result.rank >= result.world_size) {
    throw ConfigError(fmt::format("{}={} is not below {}={}", names.rank.front(), result.rank,
                                  names.world_size.front(), result.world_size));
  }
  if (result.local_rank > result.rank) {
    throw ConfigError(fmt::format("{}={} is above {}={}", names.local_rank.front(),
                                  result.local_rank, names.rank.front(), result.rank));
  }
}

void read_master(const Reader& reader, const LauncherVariables& names, RankEnvironment& result) {
  // A launcher that sets RANK always sets these, too; mpirun and srun do not know them.
  const bool required = std::string_view(names.rank.front()) == "RANK";
  if (const auto address = reader.text("MASTER_ADDR")) {
    result.master_address = *address;
  } else if (required) {
    throw ConfigError("RANK is set but MASTER_ADDR is not; set it to the address of rank 0");
  }
  // A rank that is alone meets nobody.
  if ((required && result.world_size > 1) || reader.has("MASTER_PORT")) {
    result.master_port = reader.number({"MASTER_PORT"}, names.launcher);
    if (result.master_port < 1 || result.master_port > 65535) {
      throw ConfigError(
          fmt::format("MASTER_PORT={} is not a port from 1 to 65535", result.master_port));
    }
  }
  result.agent_store =
      result.launcher == "torchrun" && reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
}

// A job's id is no secret to the other users of a host, nor on the network. With a secret derived
// from it, all ranks must be here and meet on the loopback interface.
void derive_secret(const Reader& reader, const LauncherVariables& names, RankEnvironment& result) {
  const auto job = reader.first(names.job_id);
  if (!job) {
    throw ConfigError(
        fmt::format("{} is set but there is no secret by which to find the other ranks; set "
                    "DDPBENCH_JOB_SECRET to the same random text for all ranks",
                    names.rank.front()));
  }
  const bool several_hosts = reader.first(names.local_size) &&
                             reader.number(names.local_size, names.launcher) != result.world_size;
  if (several_hosts) {
    throw ConfigError(
        fmt::format("{}={} but {}={}: ranks on several hosts need DDPBENCH_JOB_SECRET, the same "
                    "random text for all of them",
                    names.local_size.front(), *reader.first(names.local_size),
                    names.world_size.front(), result.world_size));
  }
  // torchrun calls every job "none" unless told otherwise, so the port and the number of the
  // restart keep jobs apart.
  result.secret = fmt::format("{}:{}:{}:{}", names.launcher, *job, result.master_port,
                              reader.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  result.derived_secret = true;
  result.master_address = "127.0.0.1";
}

}  // namespace

std::optional<RankEnvironment> read_rank_environment(const GetVariable& get) {
  const Reader reader(get);
  const auto names = find_launcher(reader);
  if (!names) return std::nullopt;
  RankEnvironment result;
  read_place(reader, *names, result);
  read_master(reader, *names, result);
  if (auto secret = reader.text("DDPBENCH_JOB_SECRET")) {
    result.secret = std::move(*secret);
  } else {
    derive_secret(reader, *names, result);
  }
  return result;
}

}  // namespace ddpbench::launch
