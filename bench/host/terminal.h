// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddpbench::bench {

// The columns of the terminal that stdout is; 0 (no limit) when stdout is no terminal.
int terminal_width();

}  // namespace ddpbench::bench
