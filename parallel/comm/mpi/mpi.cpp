// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "mpi" backend connects processes that mpirun started, by MPI's own collectives.
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "parallel/comm/library/library_communicator.h"
#include "parallel/comm/mpi/mpi_engine.h"

namespace ddpbench::comm {

namespace {

// How long a wait lasts before it asks EngineOptions::check again.
constexpr auto kLook = std::chrono::milliseconds(20);

// MPI_Init_thread, on a thread of its own, which may stay inside it: it waits for all ranks that
// mpirun has started.
class Initialization {
 public:
  Initialization() {
    std::packaged_task<int()> call([] {
      int provided = MPI_THREAD_SINGLE;
      if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
        throw UnavailableError("MPI_Init_thread failed; ranks of MPI are started by mpirun");
      }
      return provided;
    });
    provided_ = call.get_future();
    std::thread(std::move(call)).detach();
  }
  // Whether nobody has seen it end.
  bool is_under_way() const noexcept { return is_under_way_.load(); }
  // The level of threads that MPI gives.
  int await(const EngineOptions& options) {
    const Deadline deadline = deadline_after(options.timeout_s);
    while (provided_.wait_for(kLook) != std::future_status::ready) {
      if (options.check) options.check();
      if (has_passed(deadline)) {
        throw CommTimeout(
            "MPI_Init_thread: deadline passed while MPI waited for the ranks that mpirun has "
            "started",
            "MPI_Init_thread");
      }
    }
    is_under_way_ = false;
    return provided_.get();
  }

 private:
  std::shared_future<int> provided_;
  std::atomic<bool> is_under_way_ = true;
};

std::atomic<Initialization*> begun = nullptr;

Initialization& initialization() {
  static const std::unique_ptr<Initialization> one = [] {
    auto made = std::make_unique<Initialization>();
    begun.store(made.get());
    return made;
  }();
  return *one;
}

// MPI is finalized when the process ends, unless an engine has failed. Another thread than the one
// that initialised MPI finalizes it. MPI 3.1 advises against that; Open MPI 4.1 and 5.0 allow it.
class Session {
 public:
  // The first call waits until MPI is initialised.
  static const Session& get(const EngineOptions& options) {
    static const Session session(options);
    return session;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const noexcept { return rank_; }  // in MPI_COMM_WORLD
  int size() const noexcept { return size_; }

 private:
  explicit Session(const EngineOptions& options) {
    if (initialization().await(options) != MPI_THREAD_MULTIPLE) {
      throw UnavailableError(
          "this MPI does not let several threads call it (MPI_THREAD_MULTIPLE), which the "
          "communication thread needs");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Session() {
    if (!MpiEngine::has_any_failed()) MPI_Finalize();
  }

  int rank_ = 0, size_ = 1;
};

class MpiModule final : public CommModule {
 public:
  std::string version() const override {
#ifdef OMPI_MAJOR_VERSION
    return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                       OMPI_RELEASE_VERSION);
#else
    return fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
  }
  void prepare() const override { initialization(); }
  void finish_preparing(const EngineOptions& options) const override { Session::get(options); }

  // Rank r is rank r of MPI_COMM_WORLD.
  std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                     const EngineOptions& options) const override {
    const Session& mpi = Session::get(options);
    if (mpi.rank() != rank || mpi.size() < size) {
      throw UnavailableError(fmt::format(
          "MPI knows this process as rank {} of {}, which is to be rank {} of {}: start the ranks "
          "with the mpirun of {}",
          mpi.rank(), mpi.size(), rank, size, version()));
    }
    try {
      // MPI's call blocks: who does not come has a deadline in the exchange.
      exchange_in(store, rank, size, options)("");
      return make_library_communicator(
          "mpi", std::make_unique<MpiEngine>(MPI_COMM_WORLD, whole_world(rank, size).members, rank),
          options);
    } catch (...) {
      MpiEngine::note_failure();
      throw;
    }
  }
  std::vector<std::unique_ptr<Communicator>> make_for_threads(int,
                                                              const EngineOptions&) const override {
    throw UnavailableError("MPI connects processes, not threads of one; use --backend=shm");
  }
  bool has_left_thread() const override {
    const Initialization* const one = begun.load();
    return one != nullptr && one->is_under_way();
  }
  void share_pauses(DeadlineClock::Pauses& pauses) const override { DeadlineClock::share(pauses); }
};

}  // namespace

const CommModule& engine_module() {
  static const MpiModule module;
  return module;
}

}  // namespace ddpbench::comm
