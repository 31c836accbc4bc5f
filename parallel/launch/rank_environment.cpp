// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the variables by which launchers tell a process its place in the world.
#include "parallel/launch/rank_environment.h"

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <regex>
#include <string_view>

#include "base/error.h"
#include "base/random.h"
#include "base/ranges.h"
#include "base/text.h"

namespace ddpbench::launch {
namespace {

constexpr const char* kOpenMpiRank = "OMPI_COMM_WORLD_RANK";

// The variables of one launcher. Of several alternatives the first that is set counts.
struct LauncherVariables {
  const char* launcher;
  std::vector<const char*> rank;
  std::vector<const char*> world_size;
  std::vector<const char*> local_size;  // how many of the ranks are on this host; may be absent
  std::vector<const char*> job_id;
  std::vector<const char*> nodes = {};  // number of hosts; may be absent
  // Of several launches within one job_id; may be absent.
  std::vector<const char*> step_id = {};
  // The hosts in Slurm's short form; rank 0 is on the first. May be absent.
  std::vector<const char*> hosts = {};
};

class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  // An empty value counts as absent, because shells pass on unset variables in this way.
  std::optional<std::string> text(const char* name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.empty()) return std::nullopt;
    return found->second;
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
    const auto value = number_in<int>(text);
    if (!value || *value < 0) {
      throw ConfigError(fmt::format("{}={} is not a number from 0 to 2147483647", name, text));
    }
    return *value;
  }

  const Variables& variables_;
};

LauncherVariables mpi_variables(const Reader& reader) {
  if (reader.has(kOpenMpiRank)) {
    return {"mpirun",
            {kOpenMpiRank},
            {"OMPI_COMM_WORLD_SIZE"},
            {"OMPI_COMM_WORLD_LOCAL_SIZE"},
            {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}};
  }
  // MPICH and Intel MPI (Hydra), also as `srun --mpi=pmi2` sets them.
  return {"mpirun",
          {"PMI_RANK"},
          {"PMI_SIZE"},
          {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
          {"PMI_JOBID", "PMI_KVS", "PALS_APID", "SLURM_JOB_ID"}};
}

// Several processes that do not know of each other would each train alone.
void refuse_lone_marks(const Reader& reader) {
  for (const char* const name : {"WORLD_SIZE", "LOCAL_RANK"}) {
    if (reader.has(name)) {
      throw ConfigError(fmt::format(
          "{} is set but RANK is not; set RANK to join a world, or unset {}", name, name));
    }
  }
  if (reader.has("SLURM_PROCID")) return;  // a shell below srun has the marks of its one task
  for (const char* const name : {"PMIX_RANK", "PMI_ID", "PALS_RANKID", "MV2_COMM_WORLD_RANK",
                                 "JSM_NAMESPACE_RANK", "FLUX_TASK_RANK"}) {
    if (reader.has(name)) {
      throw ConfigError(
          fmt::format("{}={} is of a launcher whose variables are not read; set RANK, "
                      "WORLD_SIZE and MASTER_ADDR for each rank, or unset {}",
                      name, *reader.text(name), name));
    }
  }
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
                             {"WORLD_SIZE"},
                             {"LOCAL_WORLD_SIZE"},
                             {"TORCHELASTIC_RUN_ID"}};
  }
  if (reader.has(kOpenMpiRank) || reader.has("PMI_RANK")) return mpi_variables(reader);
  // Without SLURM_STEP_ID this is a batch script, and with one task it may be an interactive shell.
  // Both see SLURM_PROCID=0, but no other rank will join.
  if (reader.has("SLURM_PROCID") && reader.has("SLURM_STEP_ID") &&
      reader.first({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) != "1") {
    return LauncherVariables{"srun",
                             {"SLURM_PROCID"},
                             {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
                             {},
                             {"SLURM_JOB_ID"},
                             {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
                             {"SLURM_STEP_ID"},
                             {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}};
  }
  refuse_lone_marks(reader);
  return std::nullopt;
}

void read_place(const Reader& reader, const LauncherVariables& names, RankEnvironment& result) {
  result.launcher = names.launcher;
  result.world_size = reader.number(names.world_size, names.launcher);
  result.rank = reader.number(names.rank, names.launcher);
  if (result.launcher == "ddpbench") result.local_rank = reader.number({"LOCAL_RANK"}, "ddpbench");
  if (result.rank >= result.world_size) {
    throw ConfigError(fmt::format("{}={} is not below {}={}", names.rank.front(), result.rank,
                                  names.world_size.front(), result.world_size));
  }
}

void read_master(const Reader& reader, const LauncherVariables& names, RankEnvironment& result) {
  // A launcher that sets RANK always sets these, too; mpirun and srun do not know them.
  const bool required = std::string_view(names.rank.front()) == "RANK";
  if (const auto address = reader.text("MASTER_ADDR")) {
    result.master_address = *address;
    result.has_master_address = true;
  } else if (required) {
    throw ConfigError("RANK is set but MASTER_ADDR is not; set it to the address of rank 0");
  }
  if (const auto port = reader.text("MASTER_PORT")) result.master_port = parse_master_port(*port);
  result.agent_store =
      result.launcher == "torchrun" && reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
}

// What keeps this job apart from others. torchrun calls every job "none" unless told otherwise, and
// who sets the variables by hand names none: the port then tells them apart.
void read_job(const Reader& reader, const LauncherVariables& names, RankEnvironment& result) {
  std::string id = reader.first(names.job_id).value_or("none");
  if (const auto step = reader.first(names.step_id)) id += "." + *step;
  result.job = fmt::format("{}:{}:{}:{}", names.launcher, id, result.master_port,
                           reader.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  const bool counted = reader.first(names.local_size).has_value();
  if (counted && reader.number(names.local_size, names.launcher) != result.world_size) {
    result.several_hosts =
        fmt::format("{}={} but {}={}", names.local_size.front(), *reader.first(names.local_size),
                    names.world_size.front(), result.world_size);
  }
  for (const char* const name : names.nodes) {
    const auto nodes = reader.text(name);
    if (!nodes) continue;
    if (*nodes != "1") result.several_hosts = fmt::format("{}={}", name, *nodes);
    break;
  }
}

// "node07" of "node[07-09,12],other": of each bracket the first number.
std::string first_host(const std::string& hosts) {
  static const std::regex kBracket(R"(\[([^\],-]*)[^\]]*\]?)");
  const std::string plain = std::regex_replace(hosts, kBracket, "$1");
  return plain.substr(0, plain.find(','));
}

// Where a launcher tells the hosts, ranks on several need no MASTER_ADDR. A user's own distribution
// may have rank 0 on any of them.
void read_first_host(const Reader& reader, const LauncherVariables& names,
                     RankEnvironment& result) {
  if (result.has_master_address || result.several_hosts.empty()) return;
  if (reader.text("SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary")) return;
  const std::string host = first_host(reader.first(names.hosts).value_or(""));
  if (host.empty()) return;
  result.master_address = host;
  result.has_master_address = true;
}

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

}  // namespace

// Of a name that stands twice getenv() finds the first, too.
Variables environment_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<RankEnvironment> read_rank_environment(const Variables& variables) {
  const Reader reader(variables);
  const auto names = find_launcher(reader);
  if (!names) return std::nullopt;
  RankEnvironment result;
  read_place(reader, *names, result);
  read_master(reader, *names, result);
  read_job(reader, *names, result);
  read_first_host(reader, *names, result);
  result.secret = reader.text("DDPBENCH_JOB_SECRET").value_or("");
  result.host = reader.text("DDPBENCH_RANK_HOST").value_or("");
  return result;
}

bool has_terminal_of_mpirun() { return !environment_variable(kOpenMpiRank).value_or("").empty(); }

bool names_launcher(const Variables& variables) {
  return find_launcher(Reader(variables)).has_value();
}

int parse_master_port(const std::string& text) {
  const auto port = number_in<int>(text);
  if (port && *port >= 1 && *port <= 65535) return *port;
  throw ConfigError(fmt::format("MASTER_PORT={} is not a port from 1 to 65535", text));
}

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
  return mapped(variables, [](const auto& one) { return one.first + "=" + one.second; });
}

}  // namespace ddpbench::launch
