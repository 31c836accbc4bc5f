// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// MpiEngine: one rank's calls by the non-blocking collectives and messages of MPI 3.1. MPI
// progresses only while it is called, so a rank that waits asks again and again.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "parallel/comm/library/library_engine.h"

namespace ddpbench::comm {

// Throws CommError with MPI's words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

class MpiEngine final : public LibraryEngine {
 public:
  // Collective over `members`, ranks of `parent`, which all have come. `rank`: this one's place.
  MpiEngine(MPI_Comm parent, const std::vector<int>& members, int rank);

  std::unique_ptr<LibraryEngine> split(const SplitPart& part,
                                       const TextExchange& exchange) override;
  // After a failure MPI_Finalize would wait for who did not come.
  static void note_failure() noexcept;
  static bool has_any_failed() noexcept;

 private:
  class Moving;  // a message

  void run(const Operation& operation, Deadline deadline, Waiter waiter) override;
  std::unique_ptr<Transfer> start(const Operation& operation) override;
  void give_up() noexcept override { note_failure(); }
  void begin_reduction(const Operation& operation, MPI_Request& request) const;
  void begin_move(const Operation& operation, MPI_Request& request) const;

  MPI_Comm comm_ = MPI_COMM_NULL;  // freeing it waits for all ranks in some MPIs: it ends with MPI
};

}  // namespace ddpbench::comm
