// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives of a few kilobytes, where latency is all: every rank puts its input into its mailbox
// as it enters, and the ranks that need it read it there. One step, and no rank waits for its
// readers, because a mailbox is not used again before kHistory collectives later. Cost for n ranks
// and S bytes: a rank reads up to (n - 1) S bytes, which for an all-reduce is n / 2 times as much
// as the ring does, in 1 step in place of 2 (n - 1).
//
// All ranks reduce the same mailboxes in the order of ranks 0, 1, ...: all get the same bits.
#pragma once

#include "parallel/comm/shm/collectives/collective.h"

namespace ddpbench::comm {

// Whether every rank's part of the operation fits into a mailbox. Barriers are always small.
bool is_small(const Operation& operation, int size);
// REQUIRES: is_small.
void run_small(Collective& c);

}  // namespace ddpbench::comm
