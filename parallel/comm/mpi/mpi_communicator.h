// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes communicators of MPI with a deadline, which MPI's own call does not have.
#pragma once

#include <mpi.h>

#include <vector>

#include "parallel/comm/mpi/mpi_aside.h"

namespace ddpbench::comm {

// Collective over `members`, ranks in MPI_COMM_WORLD, with one `tag` for communicators that are
// made at a time. Errors of its calls are returned. Throws CommError and what run_aside() throws.
MPI_Comm make_communicator(const std::vector<int>& members, int tag, const Patience& patience);

}  // namespace ddpbench::comm
