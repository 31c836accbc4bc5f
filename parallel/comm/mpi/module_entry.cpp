// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one function that the MPI module exports.
#include "base/error.h"
#include "parallel/comm/mpi/mpi.h"
#include "parallel/comm/mpi/mpi_aside.h"
#include "parallel/comm/mpi/mpi_session.h"

namespace ddpbench::comm {
namespace {

class MpiModule final : public CommModule {
 public:
  std::string version() const override { return mpi_version(); }
  void prepare() const override { MpiSession::prepare(); }
  void finish_preparing(const EngineOptions& options) const override { await_mpi(options); }
  std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                     const EngineOptions& options) const override {
    return make_mpi(store, rank, size, options);
  }
  std::vector<std::unique_ptr<Communicator>> make_for_threads(int,
                                                              const EngineOptions&) const override {
    throw UnavailableError("MPI connects processes, not threads of one; use --backend=shm");
  }
  bool has_left_thread() const override { return comm::has_left_thread(); }
  void share_pauses(DeadlineClock::Pauses& pauses) const override { DeadlineClock::share(pauses); }
};

}  // namespace
}  // namespace ddpbench::comm

extern "C" __attribute__((visibility("default"))) const ddpbench::comm::CommModule*
ddpbench_comm_module(const char* build) {
  return ddpbench::comm::comm_module_of_build<ddpbench::comm::MpiModule>(build);
}
