// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI in this process.
#pragma once

namespace ddpbench::comm {

// Initialises MPI with the first call; MPI ends with the process, unless a communicator has failed:
// its other ranks might not come to the end. Throws UnavailableError.
class MpiSession {
 public:
  static MpiSession& get();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const noexcept { return rank_; }  // in MPI_COMM_WORLD
  int size() const noexcept { return size_; }
  void mark_failed() noexcept;

 private:
  MpiSession();
  ~MpiSession();

  int rank_ = 0, size_ = 1;
  bool owns_ = false;
};

// Throws CommError with MPI's words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

}  // namespace ddpbench::comm
