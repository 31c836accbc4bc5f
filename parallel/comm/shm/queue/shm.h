// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "ring" backend for ranks on one host, processes or threads: chunked, pipelined ring
// reduce-scatter and all-gather that reduce straight from the peer's pages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm {

// How an all-reduce of registered memory moves its data; see ring_all_reduce.cpp and
// direct_all_reduce.cpp. `automatic` chooses by the number of ranks.
enum class AllReduceAlgorithm : std::uint8_t { automatic, ring, direct };

// Equal on all ranks, except for thread_cores and progress.
struct RingOptions {
  double timeout_s = 60;          // default deadline of every wait
  std::vector<int> thread_cores;  // OS processors the communication thread may run on; empty: any
  std::string name = "world";     // key prefix in the store; one name per communicator
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic;
  // Called after each completed operation of this rank, on whichever thread completed it. Cheap.
  std::function<void()> progress;
};

// Collective over `size` processes that share `store`. Throws CommError when a peer is on another
// host (or PID namespace) or does not come before the timeout.
std::unique_ptr<Communicator> make_ring(Store& store, int rank, int size,
                                        const RingOptions& options);

// Communicators for `size` threads of this process, [rank]; each is used by one thread.
std::vector<std::unique_ptr<Communicator>> make_thread_ring(int size, const RingOptions& options);

}  // namespace ddpbench::comm
