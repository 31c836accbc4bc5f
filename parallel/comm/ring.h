// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "ring" backend for ranks on one host, processes or threads: chunked, pipelined ring
// reduce-scatter and all-gather that reduce straight from the peer's pages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/store.h"

namespace ddpbench::comm {

struct RingOptions {
  double timeout_s = 60;           // default deadline of every wait
  std::vector<int> thread_cores;   // OS processors the communication thread may run on; empty: any
  std::string name = "world";      // key prefix in the store; one name per communicator
};

// Collective over `size` processes that share `store`. Throws CommError when a peer is on another
// host (or PID namespace) or does not come before the timeout.
std::unique_ptr<Communicator> make_ring(Store& store, int rank, int size, const RingOptions& options);

// Communicators for `size` threads of this process, [rank]; each is used by one thread.
std::vector<std::unique_ptr<Communicator>> make_thread_ring(int size, const RingOptions& options);

}  // namespace ddpbench::comm
