// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A communicator whose all-reduces are hierarchical: the ranks of each host reduce in shared memory
// to their first rank, these all-reduce over an engine, and each sends the result to its host. So
// an element crosses the wire once a host. Everything else goes over the engine alone.
#pragma once

#include <memory>
#include <string>

#include "parallel/comm/comm_module.h"

namespace ddpbench::comm {

// Collective over `size` processes that share `store`. `host`: equal on the ranks that can map each
// other's memory (host_mark()), and on no others. Its backend() is "shm+" and the engine's. Throws
// CommError.
std::unique_ptr<Communicator> make_hierarchical(const CommModule& engine, Store& store, int rank,
                                                int size, const std::string& host,
                                                const WorldOptions& options);

}  // namespace ddpbench::comm
