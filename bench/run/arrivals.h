// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds when all peers had entered a collective, from the records of all ranks. It is for backends
// that cannot say so themselves: NCCL's kernels wait for each other on the devices, and Gloo and
// MPI do not report it.
#pragma once

#include "bench/run/host_clocks.h"

namespace ddpbench::bench {

// A collective begins when the last rank has entered it. So this sets arrived_s of each bucket
// whose backend did not report it to the latest start_s of that bucket and step over all ranks. In
// observed steps it then splits waiting from communication again. If not all ranks recorded the
// bucket, or if their clocks differ, arrived_s stays unknown and the step's waits_untold is set.
// `clock_bound_s`: HostClocks::bound_s() for corrected records of several hosts; infinite means
// that clocks differ. `collectives`: all ranks take part in each bucket, as in ddp; a bucket of ps
// is between one worker and a server. The first `workers` ranks take steps.
//
// Returns the error bound of the waiting times: `clock_bound_s`, or 0 if the backend reported them.
double fill_arrivals(RankRecords& records, std::size_t workers, double clock_bound_s,
                     bool collectives);

// Why waiting is not known where waits_untold is set.
inline constexpr const char* kUntoldWaiting =
    "the backend does not report when the peers had arrived, and the records of the ranks do not "
    "show it; comm_s includes waiting";

}  // namespace ddpbench::bench
