// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of what every backend must do, as functions of one rank. They compare each collective with
// a plain computation, on memory that peers can map and memory that they cannot, and for awkward
// counts. They throw when a result is wrong.
//
// Values are small integers that depend on rank and index, so that sums are exact in every type (no
// tolerance is needed) and a wrong chunk, peer or offset cannot cancel out.
#pragma once

#include "parallel/comm/communicator.h"

namespace ddpbench::comm::testing {

void check_all_reduce_for_every_count(Communicator& c, bool registered);
void check_all_reduce_of_every_type(Communicator& c, bool registered);
// bf16 and fp16. Sums stay below 256, which bf16 holds exactly. REQUIRES: at most 8 ranks.
void check_all_reduce_of_narrow_types(Communicator& c, bool registered);
void check_all_reduce_where_a_buffer_does_not_begin(Communicator& c, bool registered);
void check_reduce(Communicator& c, bool registered);
void check_broadcast(Communicator& c, bool registered);
void check_all_gather(Communicator& c, bool registered);
void check_reduce_scatter(Communicator& c, bool registered);
void check_scatter_and_gather(Communicator& c, bool registered);
void check_mixed_memory(Communicator& c, bool registered);
// Sums of fractions depend on the order of addition; it must be one order everywhere.
void check_all_reduce_is_bit_identical(Communicator& c, bool registered);
// A message whose deadline passed in a wait can be waited for again. REQUIRES: 2 ranks.
void check_a_passed_deadline_leaves_a_message_under_way(Communicator& c);
// Rank 0 hears of each message when it is there, though it waits for those of all others at once.
void check_the_first_of_many_messages_is_heard(Communicator& c);

}  // namespace ddpbench::comm::testing
