// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommModule: an engine between CPU devices that is another project's library (Gloo, MPI), behind a
// library of ours that is opened at run time. Programs that do not ask for the engine neither load
// nor need it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/operation.h"
#include "parallel/comm/store/deadline.h"
#include "parallel/comm/store/store.h"

namespace ddpbench {

// A program and the modules that it opens at run time hand each other C++ objects. This number is
// raised with every change of a class that crosses a module's border.
#define DDPBENCH_MODULE_INTERFACE "16"

// Interface and compiler must be equal on both sides: both decide how objects lie in memory.
inline constexpr const char* kModuleBuild =
    "interface " DDPBENCH_MODULE_INTERFACE ", compiler " __VERSION__;

}  // namespace ddpbench

namespace ddpbench::comm {

// Of any communicator of CPU devices. Equal on all ranks, except for thread_cores, address and the
// functions.
struct EngineOptions {
  double timeout_s = 60;          // default deadline of every wait
  std::vector<int> thread_cores;  // OS processors the communication thread may run on; empty: any
  std::string name = "world";     // key prefix in the store; one name per communicator
  // The address of this host on which Gloo listens for its peers. MPI reads a variable instead
  // (CommBackend::variables).
  std::string address = "127.0.0.1";
  // Called after each operation of this rank, on the thread that completed it. Must be cheap.
  std::function<void()> progress;
  CallWatch* watch = nullptr;  // of this rank's calls; null: none. It outlives the communicator
  // Called now and then while make() waits for the other ranks; may be empty. What it throws ends
  // the wait.
  std::function<void()> check;
};

class CommModule {
 public:
  virtual ~CommModule() = default;

  // The library's name and version, "Open MPI 4.1.4".
  virtual std::string version() const = 0;
  // Begins, beside what the caller does, what make() would wait for. Until finish_preparing() has
  // returned, the library may change the environment, so no thread of this process may read it. A
  // process that does not come to finish_preparing() or make() then has_left_thread().
  virtual void prepare() const {}
  // Waits for what prepare() has begun. Throws what make() throws.
  virtual void finish_preparing(const EngineOptions&) const {}
  // Collective over `size` processes that share `store`. Throws CommError when a peer does not come
  // before the timeout, UnavailableError when this process cannot use the library.
  virtual std::unique_ptr<Communicator> make(Store& store, int rank, int size,
                                             const EngineOptions& options) const = 0;
  // Communicators for `size` threads of this process, [rank]; each is used by one thread. Throws
  // UnavailableError where the library connects processes only.
  virtual std::vector<std::unique_ptr<Communicator>> make_for_threads(
      int size, const EngineOptions& options) const = 0;
  // Whether a call of the library was given up and still waits on a thread of its own. The process
  // must then end at once (_exit): what runs at its exit would take the library away under that
  // thread.
  virtual bool has_left_thread() const { return false; }
  // The module's waits use the program's deadlines (DeadlineClock::share).
  virtual void share_pauses(DeadlineClock::Pauses& pauses) const = 0;
};

// The one function that a module of this kind exports (library/module_entry.cpp). `build` is that
// of the calling program. Returns null when the module's own build is another one, because their
// classes may differ.
using CommModuleEntry = const CommModule* (*)(const char* build);
inline constexpr const char* kCommModuleEntryName = "ddpbench_comm_module";

// Each engine's room defines it.
const CommModule& engine_module();

}  // namespace ddpbench::comm
