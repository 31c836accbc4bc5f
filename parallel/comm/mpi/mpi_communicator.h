// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes communicators of MPI with a deadline, which MPI's own call does not have.
#pragma once

#include <mpi.h>

#include <functional>
#include <vector>

#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

// Collective over `members`, ranks in MPI_COMM_WORLD, with one `tag` for communicators that are
// made at a time. Errors of its calls are returned. `check` is called now and then and may be
// empty; what it throws ends the wait. Throws CommTimeout when the others have not come at the
// deadline. After either, MPI still waits on a thread of its own, and this process must end without
// MPI_Finalize (MpiSession::mark_failed).
MPI_Comm make_communicator(const std::vector<int>& members, int tag, Deadline deadline,
                           const std::function<void()>& check);

}  // namespace ddpbench::comm
