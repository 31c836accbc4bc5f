// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_engine.h"

#include "bench/host/host_devices.h"
#include "bench/host/terminal.h"
#include "bench/rank/rank_devices.h"
#include "parallel/comm_backends.h"
#include "parallel/launch/host_address.h"
#include "parallel/launch/own_environment.h"

namespace ddpbench::bench {
namespace {

// Null for a rank that communicates with none.
const CommBackend* world_backend(const TrainingJob& job,
                                 const launch::RankEnvironment& environment) {
  return environment.world_size == 1 ? nullptr : find_comm_backend(job.backend);
}

// Null where the ranks need none.
const comm::CommModule* world_module(const TrainingJob& job,
                                     const launch::RankEnvironment& environment) {
  const CommBackend* const backend = world_backend(job, environment);
  return backend && !backend->module.empty() ? &backend_module(*backend) : nullptr;
}

}  // namespace

bool may_hang(const TrainingJob& job, const launch::RankEnvironment& environment) {
  const CommBackend* const backend = world_backend(job, environment);
  return backend && !backend->launcher.empty();
}

void prepare_engine(const TrainingJob& job, const Options& options,
                    const launch::RankEnvironment& environment, const JoinedHosts& hosts) {
  RankNetwork network{.on_one_host = !hosts.are_several(), .ranks = environment.world_size};
  if (hosts.are_several() && !options.interface.empty()) {
    network.interface = launch::interface_name(options.interface);
  }
  const bool has_choice = !launch::environment_variable("OMPI_MCA_btl");
  prepare_rank(device_plan(job), environment.rank, network);
  const bool lacks_shared_memory =
      has_choice && job.backend == "mpi" && network.on_one_host && !has_room_for_mpi(network.ranks);
  if (lacks_shared_memory && environment.rank == 0) {
    say_error(
        "warning: /dev/shm has less than 8 MiB a rank free: the ranks use MPI over TCP, not its "
        "shared memory, which is faster\n");
  }
  const comm::CommModule* const module = world_module(job, environment);
  if (module == nullptr) return;
  launch::keep_environment();  // a report and the reference take it meanwhile
  module->prepare();
}

void finish_engine(const TrainingJob& job, const launch::RankEnvironment& environment,
                   const comm::EngineOptions& options) {
  if (const comm::CommModule* const module = world_module(job, environment)) {
    module->finish_preparing(options);
  }
}

}  // namespace ddpbench::bench
