// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi.h"

#include <functional>
#include <vector>

#include "base/error.h"
#include "parallel/comm/mpi/mpi_communicator.h"
#include "parallel/comm/mpi/mpi_link.h"
#include "parallel/comm/mpi/mpi_pieces.h"
#include "parallel/comm/mpi/mpi_session.h"
#include "parallel/comm/wire/wire_communicator.h"

namespace ddpbench::comm {

namespace {

Patience patience_of(const EngineOptions& options) {
  return {deadline_after(options.timeout_s), options.check};
}

// Who does not come is told best by the barrier, so it is first. `tag` tells communicators apart
// that are made at the same time.
std::unique_ptr<WireLink> meet_ranks(Store& store, int rank, const std::vector<int>& members,
                                     const EngineOptions& options) {
  const int size = static_cast<int>(members.size());
  store_barrier(store, options.name + "/mpi", size, options.timeout_s);
  const int tag = static_cast<int>(std::hash<std::string>()(options.name) % 10'000);
  const Patience patience = patience_of(options);
  const MPI_Comm data = make_communicator(members, 2 * tag, patience);
  const MPI_Comm mail = make_communicator(members, 2 * tag + 1, patience);
  return std::make_unique<MpiLink>(rank, size, data, mail,
                                   find_places(data, size, options.host, patience));
}

// After a failure MPI_Finalize would wait for who did not come.
std::unique_ptr<WireLink> join_ranks(Store& store, int rank, const std::vector<int>& members,
                                     const EngineOptions& options) {
  try {
    return meet_ranks(store, rank, members, options);
  } catch (...) {
    mark_mpi_failed();
    throw;
  }
}

}  // namespace

void await_mpi(const EngineOptions& options) { MpiSession::get(patience_of(options)); }

std::unique_ptr<Communicator> make_mpi(Store& store, int rank, int size,
                                       const EngineOptions& options) {
  const MpiSession& mpi = MpiSession::get(patience_of(options));
  if (mpi.rank() != rank || mpi.size() < size) {
    throw UnavailableError(
        fmt::format("MPI knows this process as rank {} of {}, which is to be rank {} of {}: start "
                    "the ranks with the mpirun of {}",
                    mpi.rank(), mpi.size(), rank, size, mpi_version()));
  }
  return make_wire_communicator("mpi", store, rank, size, join_ranks, options);
}

std::string mpi_version() {
#ifdef OMPI_MAJOR_VERSION
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                     OMPI_RELEASE_VERSION);
#else
  return fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
}

}  // namespace ddpbench::comm
