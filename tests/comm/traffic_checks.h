// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks that what a backend plans to send (CommBackend::add_traffic) is what ranks take from each
// other (Communicator::taken). Each is called by all ranks.
#pragma once

#include <cstddef>
#include <functional>

#include "parallel/comm/communicator.h"
#include "parallel/comm/link_call.h"

namespace ddpbench::comm::testing {

using AddTraffic = std::function<void(const LinkCall&, AllReduceAlgorithm, LinkTraffic&)>;

// The memory that check_collective_traffic() needs.
std::size_t traffic_bytes(int ranks);
// All collectives with several counts, on `data`. `readable`: all ranks can read it in place.
void check_collective_traffic(Communicator& c, AllReduceAlgorithm wanted, float* data,
                              bool readable, const AddTraffic& add_traffic);
// Messages around the ring.
void check_message_traffic(Communicator& c, const AddTraffic& add_traffic);

}  // namespace ddpbench::comm::testing
