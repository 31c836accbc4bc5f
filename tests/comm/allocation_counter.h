// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Counts the calls of operator new of the whole test program, all threads.
#pragma once

namespace ddpbench::comm::testing {

void start_counting_allocations();  // from 0
int stop_counting_allocations();    // how many there were

}  // namespace ddpbench::comm::testing
