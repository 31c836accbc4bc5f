// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_session.h"

#include <mpi.h>

#include <array>
#include <memory>
#include <string>

#include "base/error.h"

namespace ddpbench::comm {

namespace {

// MPI_Init_thread in this process. The thread that makes it may outlive what waits for it.
class Initialization {
 public:
  void await(const Patience& patience) {
    call_.wait(patience, "MPI_Init_thread", "MPI waited for the ranks that mpirun has started");
  }
  int provided() const { return *provided_; }

 private:
  const std::shared_ptr<int> provided_ = std::make_shared<int>(MPI_THREAD_SINGLE);
  Aside call_{[provided = provided_] {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, provided.get()) == MPI_SUCCESS) {
      return;
    }
    throw UnavailableError("MPI_Init_thread failed; ranks of MPI are started by mpirun");
  }};
};

// Begins with the first call. Null where the process has initialised MPI before.
Initialization* initialization() {
  static const std::unique_ptr<Initialization> one = [] {
    int initialized = 0;
    MPI_Initialized(&initialized);
    return initialized ? nullptr : std::make_unique<Initialization>();
  }();
  return one.get();
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CommError(fmt::format("{}: {}", call, std::string(text.data())));
}

const MpiSession& MpiSession::get(const Patience& patience) {
  static const MpiSession session(patience);
  return session;
}

void MpiSession::prepare() { initialization(); }

MpiSession::MpiSession(const Patience& patience) {
  int provided = MPI_THREAD_SINGLE;
  if (Initialization* const own = initialization()) {
    own->await(patience);
    provided = own->provided();
    owns_ = true;
  } else {
    MPI_Query_thread(&provided);
  }
  if (provided != MPI_THREAD_MULTIPLE) {
    throw UnavailableError(
        "this MPI does not let several threads call it (MPI_THREAD_MULTIPLE), which the "
        "communication thread needs");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

MpiSession::~MpiSession() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (owns_ && !finalized && !has_mpi_failed()) MPI_Finalize();
}

}  // namespace ddpbench::comm
