// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What makes communicators of WorldOptions: shared memory of one host; CommModule, an engine
// between CPU devices that is another project's library (Gloo, MPI), behind a library of ours that
// is opened when the engine is asked for; both together; and, in the CUDA module, what connects
// GPUs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/comm/store/store.h"

namespace ddpbench {

// To be raised with every change of a class that crosses a module's border.
#define DDPBENCH_MODULE_INTERFACE "23"

// Interface and compiler must be equal on both sides: both decide how objects lie in memory.
inline constexpr const char* kModuleBuild =
    "interface " DDPBENCH_MODULE_INTERFACE ", compiler " __VERSION__;

class Device;
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

// ---- "shm": ranks of one host, processes or threads, reduce straight from their peers' pages ----

// The algorithm that AllReduceAlgorithm::automatic runs for so many bytes between so many ranks.
AllReduceAlgorithm automatic_shm_all_reduce(int ranks, std::size_t bytes);

// Collective over `size` processes that share `store`. Throws CommError when a peer is on another
// host (or PID namespace) or does not come before the timeout.
std::unique_ptr<Communicator> make_shm(Store& store, int rank, int size,
                                       const WorldOptions& options);

// Communicators for `size` threads of this process, [rank]; each is used by one thread.
std::vector<std::unique_ptr<Communicator>> make_thread_shm(int size, const WorldOptions& options);

// ---- "shm+gloo", "shm+mpi" ----

// A communicator whose all-reduces are hierarchical: the ranks of each host reduce in shared memory
// to their first rank, these all-reduce over an engine, and each sends the result to its host. So
// an element crosses the wire once a host. Everything else goes over the engine alone.
//
// Collective over `size` processes that share `store`. `host`: equal on the ranks that can map each
// other's memory (host_mark()), and on no others. Its backend() is "shm+" and the engine's. Throws
// CommError.
std::unique_ptr<Communicator> make_hierarchical(const CommModule& engine, Store& store, int rank,
                                                int size, const std::string& host,
                                                const WorldOptions& options);

// ---- between CUDA devices: the CUDA module alone defines these (parallel/cuda_module.h) ----

// Collective over `size` processes, or threads of one, that share `store`, one device each. The
// device outlives the communicator. Throws CommError when a peer does not come within the timeout.
// When NCCL itself does not connect the ranks in that time, a thread of this process stays inside
// it: the process has to end without destroying static objects (std::_Exit). NCCL refuses two ranks
// on one GPU unless every rank is a process that has an NCCL_HOSTID of its own.
std::unique_ptr<Communicator> make_nccl(Store& store, int rank, int size, Device& device,
                                        const WorldOptions& options);

// Connects a device to the ranks of `host`, which may be processes on CPU devices. A call copies
// its operands to page-locked host memory, runs as a call of `host`, and copies back, all in the
// stream's order: the host is never blocked, unless `blocks`.
//
// `blocks`: each call returns when its part on the host is done. REQUIRED where the process has
// several such communicators: CUDA may run the host functions of a process one behind the other, in
// any order, and those of two ranks would wait for each other.
//
// The device outlives the communicator. Calls that a stream records are refused (InternalError).
// backend() and timeout_s() are the host's.
std::unique_ptr<Communicator> make_staged(std::unique_ptr<Communicator> host, Device& device,
                                          bool blocks = false);

// "nccl": the version of the library that is loaded.
std::map<std::string, std::string> cuda_comm_versions();

}  // namespace ddpbench::comm
