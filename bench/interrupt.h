// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C and SIGTERM as a flag that the supervisor polls.
#pragma once

namespace ddpbench::bench {

// From now on SIGINT and SIGTERM set the flag instead of ending the process.
void catch_interrupts();
bool interrupt_requested();

}  // namespace ddpbench::bench
