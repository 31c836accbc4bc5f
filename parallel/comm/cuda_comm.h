// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicators between CUDA devices, declared for code that does not know CUDA. The CUDA module
// alone defines them; all other code reaches them through parallel/cuda_module.h.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kernels/runtime/device.h"
#include "parallel/comm/comm_module.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm {

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
