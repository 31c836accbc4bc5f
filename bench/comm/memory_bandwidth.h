// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How fast the ranks' cores, or the GPU that they share, move memory of their own: the bound of
// collectives in shared memory.
#pragma once

#include "bench/comm/collective_rank.h"
#include "bench/comm/comm_spec.h"

namespace ddpbench::bench {

// Collective. The bandwidth of this rank's core while all do the same (`all_cores`) or while the
// others wait (0 on ranks other than 0). Copies half of the working set to the other half, and
// reduces it into that, with the communicator's own loops, cached and streaming stores; the best
// of several short windows counts, because it is to be a bound. Overwrites the rank's memory,
// which REQUIRES: working_set <= twice its bytes.
BandwidthSample measure_bandwidth(CollectiveRank& rank, std::size_t working_set, bool all_cores,
                                  DataType type);

// Collective. The copy bandwidth of the GPU of rank 0 while the other ranks wait (0 on those):
// copies of one half of the working set to the other by the device itself, bytes read and written,
// timed by events around many of them that were queued together while the device was busy; the best
// of several windows. Not measured (`missing`) where a copy takes less than four times as long as
// the host to queue it, or the device to begin it (a copy of a few bytes): that would be the rate
// of launches; nor where there is not so much memory. Overwrites the rank's memory, or takes as
// much as it needs for this while.
BandwidthSample measure_copy_bandwidth(CollectiveRank& rank, std::size_t working_set);

}  // namespace ddpbench::bench
