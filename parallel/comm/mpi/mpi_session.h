// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI in this process.
#pragma once

#include "parallel/comm/mpi/mpi_aside.h"

namespace ddpbench::comm {

// MPI is finalized when the process ends, unless mark_mpi_failed() was called. Another thread than
// the one that initialised MPI finalizes it. MPI 3.1 advises against that; Open MPI 4.1 and 5.0
// allow it.
class MpiSession {
 public:
  // Begins to initialise MPI, on a thread of its own.
  static void prepare();
  // The first call waits until MPI is initialised, which waits for all ranks of mpirun. Throws
  // UnavailableError and what Aside::wait() throws.
  static const MpiSession& get(const Patience& patience);
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const noexcept { return rank_; }  // in MPI_COMM_WORLD
  int size() const noexcept { return size_; }

 private:
  explicit MpiSession(const Patience& patience);
  ~MpiSession();

  int rank_ = 0, size_ = 1;
  bool owns_ = false;
};

// Throws CommError with MPI's words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

}  // namespace ddpbench::comm
