// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicators between CUDA devices, declared for code that does not know CUDA. The CUDA module
// alone defines them; all other code reaches them through parallel/cuda_module.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/runtime/device.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm {

// Equal on all ranks, except for the functions.
struct CudaCommOptions {
  double timeout_s = 60;       // default deadline of every wait
  std::string name = "world";  // key prefix in the store; one name per communicator
  // Called on the watchdog's thread after operations of this rank have completed. Must be cheap.
  std::function<void()> progress;
  // The least time, in seconds, that ranks wait for each other while the communicator is made. Each
  // makes its context meanwhile, maps memory and loads kernels (NCCL's alone are hundreds of MB).
  // That takes seconds when several processes do it on one GPU.
  double join_patience_s = 30;
  // Called several times a second during that wait, on the thread that makes the communicator: a
  // process that watches the ranks does not know of that patience. Must be cheap.
  std::function<void()> joining;
};

// NCCL did not connect its ranks in time. A thread of this process stays inside it, so the process
// has to end without destroying static objects (std::_Exit).
class UnfinishedJoin final : public CommTimeout {
 public:
  using CommTimeout::CommTimeout;
};

// Collective over `size` processes that share `store`, one device each. The device outlives the
// communicator. Throws CommError when a peer does not come within the timeout or join_patience_s,
// whichever is more: what happens once on a GPU is no part of an operation's deadline. When NCCL
// itself does not connect the ranks in that time, it is an UnfinishedJoin, also in
// make_thread_nccl().
//
// NCCL refuses two ranks on one GPU unless every rank has an NCCL_HOSTID of its own.
std::unique_ptr<Communicator> make_nccl(Store& store, int rank, int size, Device& device,
                                        const CudaCommOptions& options);

// Connects a device to the ranks of `host`. They may be processes on CPU devices, which use such a
// communicator itself. A call copies its operands to page-locked host memory, runs as a call of
// `host`, and copies back, all in the stream's order: the host is never blocked, unless `blocks`.
// Registered buffers have such memory of their own; other operands borrow it.
//
// `blocks`: each call returns when its part on the host is done. REQUIRED where the process has
// several such communicators: CUDA may run the host functions of a process one behind the other, in
// any order, and those of two ranks would wait for each other.
//
// The device outlives the communicator. Calls that a stream records are refused (InternalError).
// backend() and timeout_s() are the host's.
std::unique_ptr<Communicator> make_staged(std::unique_ptr<Communicator> host, Device& device,
                                          bool blocks = false);

// For the threads of one process: one communicator a device, [rank], each used by one thread.
std::vector<std::unique_ptr<Communicator>> make_thread_nccl(const std::vector<Device*>& devices,
                                                            const CudaCommOptions& options);

// "nccl": the version of the library that is loaded.
std::map<std::string, std::string> cuda_comm_versions();

}  // namespace ddpbench::comm
