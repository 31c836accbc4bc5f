// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommModule: an engine between CPU devices that is another project's library (Gloo, MPI), behind a
// library of ours that is opened when the engine is asked for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/comm/store/store.h"

namespace ddpbench {

// To be raised with every change of a class that crosses a module's border.
#define DDPBENCH_MODULE_INTERFACE "22"

// Interface and compiler must be equal on both sides: both decide how objects lie in memory.
inline constexpr const char* kModuleBuild =
    "interface " DDPBENCH_MODULE_INTERFACE ", compiler " __VERSION__;

struct CudaModule;

namespace comm {
class CommModule;
}

// Options of a communicator. Equal on all ranks, except for thread_cores, address and the
// functions.
struct WorldOptions {
  std::string name = "world";     // key prefix in the store; one name per communicator
  double timeout_s = 60;          // default deadline of every wait for peers
  std::vector<int> thread_cores;  // OS processors of its own thread, on CPU devices; empty: any
  // Called after each operation of this rank, on the thread that completed it; may be empty. Must
  // be cheap.
  std::function<void()> progress;
  // Watches this rank's calls, except over nccl; null: nobody does. It outlives the communicator.
  comm::CallWatch* watch = nullptr;
  // Over shared memory, of registered memory.
  comm::AllReduceAlgorithm all_reduce = comm::AllReduceAlgorithm::automatic;
  comm::Link link;      // over shared memory: what each call is to last as long as over
  bool blocks = false;  // of GPUs through host memory: see comm::make_staged
  // This host's IPv4 address at which Gloo listens for peers of other hosts; empty: the loopback
  // interface. MPI and NCCL read variables instead (CommBackend::variables).
  std::string address;
  const CudaModule* cuda = nullptr;          // REQUIRED by backends of CUDA devices
  const comm::CommModule* module = nullptr;  // REQUIRED by backends with a module of their own
  // mpi: the ranks of MPI_COMM_WORLD that take part, [rank]; empty: the first ones.
  std::vector<int> members = {};
};

}  // namespace ddpbench

namespace ddpbench::comm {

class CommModule {
 public:
  virtual ~CommModule() = default;

  // The library's name and version, "Open MPI 4.1.4".
  virtual std::string version() const = 0;
  // Collective over `size` processes that share `store`, at least two. Throws CommError when a peer
  // does not come before the timeout, UnavailableError when this process cannot use the library.
  // When it throws, a thread may stay in a call of the library: the process must end by std::_Exit,
  // since what runs at its exit would take the library away under that thread.
  virtual std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                             const WorldOptions& options) const = 0;
  // The module's waits use the program's deadlines (DeadlineClock::share).
  virtual void share_pauses(DeadlineClock::Pauses& pauses) const = 0;
};

// The one function that a module of this kind exports (library/module_entry.cpp). Returns null when
// its build is not `build`, that of the calling program, because their classes may differ.
using CommModuleEntry = const CommModule* (*)(const char* build);
inline constexpr const char* kCommModuleEntryName = "ddpbench_comm_module";

// Each engine's room defines it.
const CommModule& engine_module();

}  // namespace ddpbench::comm
