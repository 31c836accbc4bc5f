// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "shm" backend connects ranks of one host, processes or threads. They reduce straight from
// their peers' pages in shared memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/all_reduce_algorithm.h"
#include "parallel/comm/call_watch.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/link_call.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::comm {

// The algorithm that AllReduceAlgorithm::automatic runs for so many bytes between so many ranks.
AllReduceAlgorithm automatic_shm_all_reduce(int ranks, std::size_t bytes);

// Adds what the ranks send each other in a call, with the all-reduce that was asked for, on memory
// that all ranks can read. Memory that passes through staging areas moves as many bytes.
void add_shm_traffic(const LinkCall& call, AllReduceAlgorithm wanted, LinkTraffic& traffic);

// Equal on all ranks, except for thread_cores and the functions.
struct ShmOptions {
  double timeout_s = 60;          // default deadline of every wait
  std::vector<int> thread_cores;  // OS processors the communication thread may run on; empty: any
  std::string name = "world";     // key prefix in the store; one name per communicator
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic;  // for registered memory
  // Called after each operation of this rank, on the thread that completed it. Must be cheap.
  std::function<void()> progress;
  CallWatch* watch = nullptr;  // of this rank's calls; null: none. It outlives the communicator
  // Called now and then while make_shm() waits for the other ranks; may be empty. What it throws
  // ends the wait.
  std::function<void()> check;
};

// Collective over `size` processes that share `store`. Throws CommError when a peer is on another
// host (or PID namespace) or does not come before the timeout.
std::unique_ptr<Communicator> make_shm(Store& store, int rank, int size, const ShmOptions& options);

// Communicators for `size` threads of this process, [rank]; each is used by one thread.
std::vector<std::unique_ptr<Communicator>> make_thread_shm(int size, const ShmOptions& options);

}  // namespace ddpbench::comm
