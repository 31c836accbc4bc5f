// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// All-reduce, by the ring or directly, and reduce, which is half of the direct all-reduce.
#pragma once

#include "parallel/comm/all_reduce_algorithm.h"
#include "parallel/comm/shm/collectives/collective.h"

namespace ddpbench::comm {

// Returns the algorithm that ran. The ring needs memory that all peers can map; where one rank's is
// staged, `wanted` is not followed and all ranks run the direct algorithm. Operations that fit into
// mailboxes (small_collectives.h) are direct unless the ring is wanted.
AllReduceAlgorithm run_all_reduce(Collective& c, AllReduceAlgorithm wanted);
void run_reduce(Collective& c);

// What AllReduceAlgorithm::automatic runs between so many ranks.
AllReduceAlgorithm automatic_all_reduce(int ranks);

}  // namespace ddpbench::comm
