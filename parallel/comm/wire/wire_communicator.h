// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// WireCommunicator: the Communicator over an engine that shares no memory between ranks. Buffers
// need no registration there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/operation_communicator.h"
#include "parallel/comm/queue/executor.h"
#include "parallel/comm/wire/wire_engine.h"

namespace ddpbench::comm {

// Connects rank `rank` of `size`, collectively with the others that share `store`. `members`:
// [rank] which ranks of the communicator that was made first they are. Not called for one rank.
using Connect = std::function<std::unique_ptr<WireLink>(
    Store& store, int rank, const std::vector<int>& members, const EngineOptions& options)>;

// Collective over `size` ranks that share `store`. Communicators that are split off are connected
// in the same way.
std::unique_ptr<Communicator> make_wire_communicator(const std::string& backend, Store& store,
                                                     int rank, int size, const Connect& connect,
                                                     const EngineOptions& options);

}  // namespace ddpbench::comm
