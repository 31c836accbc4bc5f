// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "mpi" backend connects processes that mpirun started. Collectives that only move data are
// MPI's own (non-blocking, MPI 3.1); reductions are ours, over MPI's messages.
#pragma once

#include <memory>
#include <string>

#include "parallel/comm/comm_module.h"

namespace ddpbench::comm {

// CommModule::finish_preparing().
void await_mpi(const EngineOptions& options);

// The contract is that of CommModule. Rank r is rank r of MPI_COMM_WORLD. Throws UnavailableError
// when MPI does not know this process as that.
std::unique_ptr<Communicator> make_mpi(Store& store, int rank, int size,
                                       const EngineOptions& options);

std::string mpi_version();

}  // namespace ddpbench::comm
