// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "shm" backend connects ranks of one host, processes or threads. They reduce straight from
// their peers' pages in shared memory.
#pragma once

#include <memory>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm {

// The algorithm that AllReduceAlgorithm::automatic runs for so many bytes between so many ranks.
AllReduceAlgorithm automatic_shm_all_reduce(int ranks, std::size_t bytes);

// Collective over `size` processes that share `store`. Throws CommError when a peer is on another
// host (or PID namespace) or does not come before the timeout.
std::unique_ptr<Communicator> make_shm(Store& store, int rank, int size,
                                       const WorldOptions& options);

// Communicators for `size` threads of this process, [rank]; each is used by one thread.
std::vector<std::unique_ptr<Communicator>> make_thread_shm(int size, const WorldOptions& options);

}  // namespace ddpbench::comm
