// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures how fast the ranks' cores, or the GPU that they share, move memory of their own. It is
// the bound of collectives in shared memory.
#pragma once

#include "bench/comm/collective_rank.h"
#include "bench/comm/comm_job.h"

namespace ddpbench::bench {

// Collective. The bandwidth of this rank's core while all ranks do the same (`all_cores`), or while
// the others wait (0 on ranks other than 0). It copies half of the working set to the other half
// and reduces it into that, with the communicator's own loops, with cached and non-temporal stores.
// The best of several short windows counts, because it is to be a bound. Overwrites the rank's
// memory. REQUIRES: working_set <= twice that memory's bytes.
BandwidthSample measure_bandwidth(CollectiveRank& rank, std::size_t working_set, bool all_cores,
                                  DataType type);

// Collective. The copy bandwidth of rank 0's GPU while the other ranks wait (0 on those), in bytes
// read and written. The device itself copies one half of the working set to the other. Events time
// many copies that were queued together while the device was busy; the best of several windows
// counts. Not measured (`missing`) without enough memory, or where a copy takes less than four
// times as long as the host to queue it, or the device to begin it (a copy of a few bytes): that
// would be the rate of launches. Overwrites the rank's memory, or allocates what it needs
// meanwhile.
BandwidthSample measure_copy_bandwidth(CollectiveRank& rank, std::size_t working_set);

}  // namespace ddpbench::bench
