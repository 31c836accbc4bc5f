// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// When the peers of a collective had come to it, found from the records of all ranks, for backends
// that cannot tell it (NCCL's kernels wait for each other on the devices; Gloo and MPI say nothing
// of it).
#pragma once

#include "bench/run/host_clocks.h"

namespace ddpbench::bench {

// A collective begins when the last rank has entered it: sets arrived_s of each bucket whose
// backend did not tell it to the latest start_s of the same bucket and step over all ranks, and
// tells waiting from communication again in the steps that were observed. A bucket stays untold,
// and its step's waits_untold is set, where not all ranks recorded it, or their clocks differ.
// `clock_bound_s`: HostClocks::bound_s(), where records are of several hosts and corrected;
// infinite means that clocks differ. `collectives`: all ranks take part in each bucket, as in ddp;
// a bucket of ps is between one worker and a server. The first `workers` ranks take steps.
//
// Returns how far the waiting that is known from now on may be off: `clock_bound_s`, or 0 where the
// backend told it.
double fill_arrivals(RankRecords& records, std::size_t workers, double clock_bound_s,
                     bool collectives);

// Why waiting is not known where waits_untold is set.
inline constexpr const char* kUntoldWaiting =
    "the backend does not tell when the peers had come, and the records of all ranks do not show "
    "it; "
    "comm_s includes waiting";

}  // namespace ddpbench::bench
