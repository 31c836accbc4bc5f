// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// When the peers of a collective had come to it, found from the records of all ranks, for backends
// that cannot tell it (NCCL's kernels wait for each other on the devices).
#pragma once

#include <vector>

#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

// The step and bucket records of all workers: [rank].
struct WorkerRecords {
  std::vector<std::vector<launch::StepRecord>> steps;
  std::vector<std::vector<launch::BucketRecord>> buckets;
};

// A collective begins when the last rank has entered it: sets arrived_s of each bucket whose
// backend did not tell it to the latest start_s of the same bucket and step over all ranks, and
// tells waiting from communication again in the steps that were observed. A bucket stays untold,
// and its step's waits_untold is set, where not all ranks recorded it, or their clocks differ.
// `one_clock`: all ranks are on one host. `collectives`: all ranks take part in each bucket, as in
// ddp; a bucket of ps is between one worker and a server.
void fill_arrivals(WorkerRecords& records, bool one_clock, bool collectives);

// Why waiting is not known where waits_untold is set.
inline constexpr const char* kUntoldWaiting =
    "the backend does not tell when the peers had come, and the records of all ranks do not show "
    "it; "
    "comm_s includes waiting";

}  // namespace ddpbench::bench
