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
const CommBackend* world_backend(const std::string& name,
                                 const launch::RankEnvironment& environment) {
  return environment.world_size == 1 ? nullptr : find_comm_backend(name);
}

// Null where the ranks need none.
const comm::CommModule* world_module(const std::string& name,
                                     const launch::RankEnvironment& environment) {
  const CommBackend* const backend = world_backend(name, environment);
  return backend && !backend->module.empty() ? &backend_module(*backend) : nullptr;
}

}  // namespace

bool may_hang(const std::string& backend, const launch::RankEnvironment& environment) {
  const CommBackend* const row = world_backend(backend, environment);
  return row && !row->launcher.empty();
}

void prepare_engine(const DevicePlan& devices, const std::string& interface,
                    const launch::RankEnvironment& environment, const JoinedHosts& hosts) {
  RankNetwork network{.on_one_host = !hosts.are_several(), .ranks = environment.world_size};
  if (hosts.are_several() && !interface.empty()) {
    network.interface = launch::interface_name(interface);
  }
  const bool has_choice = !launch::environment_variable("OMPI_MCA_btl");
  prepare_rank(devices, environment.rank, network);
  const bool lacks_shared_memory = has_choice && devices.backend == "mpi" && network.on_one_host &&
                                   !has_room_for_mpi(network.ranks);
  if (lacks_shared_memory && environment.rank == 0) {
    say_error(
        "warning: /dev/shm has less than 8 MiB a rank free: the ranks use MPI over TCP, not its "
        "shared memory, which is faster\n");
  }
  const comm::CommModule* const module = world_module(devices.backend, environment);
  if (module == nullptr) return;
  launch::keep_environment();  // a report and the reference take it meanwhile
  module->prepare();
}

void finish_engine(const std::string& backend, const launch::RankEnvironment& environment,
                   const comm::EngineOptions& options) {
  if (const comm::CommModule* const module = world_module(backend, environment)) {
    module->finish_preparing(options);
  }
}

}  // namespace ddpbench::bench
