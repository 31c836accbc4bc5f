// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_communicator.h"

#include <fmt/ranges.h>

#include <future>
#include <memory>
#include <thread>

#include "base/error.h"
#include "parallel/comm/mpi/mpi_session.h"

namespace ddpbench::comm {

namespace {

// How long a wait lasts before it asks `check` again.
constexpr auto kLook = std::chrono::milliseconds(20);

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

// No call of MPI 3.1 makes a communicator of some ranks without blocking, so a thread does it,
// which may be left behind.
MPI_Comm make_communicator(const std::vector<int>& members, int tag, Deadline deadline,
                           const std::function<void()>& check) {
  MpiSession& mpi = MpiSession::get();
  std::packaged_task<MPI_Comm()> task([members, tag] { return create_group(members, tag); });
  std::future<MPI_Comm> made = task.get_future();
  std::thread maker(std::move(task));
  try {
    while (made.wait_for(kLook) != std::future_status::ready) {
      if (check) check();
      if (!has_passed(deadline)) continue;
      throw CommTimeout(
          fmt::format(
              "rank {} of {}: deadline passed while MPI made a communicator of the ranks {}: "
              "one of them did not come",
              mpi.rank(), mpi.size(), fmt::join(members, ", ")),
          "MPI_Comm_create_group");
    }
  } catch (...) {
    mpi.mark_failed();
    maker.detach();
    throw;
  }
  maker.join();
  return made.get();
}

}  // namespace ddpbench::comm
