// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives in which every rank exposes memory and reads from all others: reduce-scatter and
// all-gather.
// Cost for n ranks and S bytes in total: 1 step; each rank reads (n - 1) / n * S bytes.
#pragma once

#include "parallel/comm/shm/collectives/collective.h"

namespace ddpbench::comm {

void run_reduce_scatter(Collective& c);
void run_all_gather(Collective& c);

}  // namespace ddpbench::comm
