// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The collectives between a root and the others: broadcast, scatter, gather.
// Cost for n ranks and parts of S bytes: 1 step. Broadcast: every other rank reads S bytes of the
// root's memory, all at once. Scatter: the same, each another part. Gather: the root reads (n - 1)
// S.
//
// Memory that peers cannot map passes through the staging area in pieces: kLanes of them are in
// flight, so that one side fills a piece while the other empties another.
#pragma once

#include "parallel/comm/shm/collectives/collective.h"

namespace ddpbench::comm {

void run_broadcast(Collective& c);
void run_scatter(Collective& c);
void run_gather(Collective& c);

}  // namespace ddpbench::comm
