// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_communicator.h"

#include <fmt/ranges.h>

#include <memory>

#include "parallel/comm/mpi/mpi_session.h"

namespace ddpbench::comm {

namespace {

MPI_Comm create_group(const std::vector<int>& members, int tag) {
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &group);
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &made), "MPI_Comm_create_group");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

}  // namespace

// No call of MPI 3.1 makes a communicator of some ranks without blocking.
MPI_Comm make_communicator(const std::vector<int>& members, int tag, const Patience& patience) {
  const auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);  // the thread may outlive this call
  run_aside([made, members, tag] { *made = create_group(members, tag); }, patience,
            "MPI_Comm_create_group",
            fmt::format("MPI made a communicator of the ranks {}: one of them did not come",
                        fmt::join(members, ", ")));
  return *made;
}

}  // namespace ddpbench::comm
