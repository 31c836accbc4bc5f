// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures the clock of this host against that of the host that serves the store.
#pragma once

#include "bench/rank/rank_result.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::bench {

// Asks for the other clock some dozen times, for half a second at most. The other clock was read
// within the round trip, so its middle is right within half of it; the shortest counts (Cristian,
// "Probabilistic clock synchronization", Distributed Computing 3, 1989). Throws CommError.
ClockReading read_clock(comm::Store& store);

}  // namespace ddpbench::bench
