// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddpbench::bench {

// Columns of the terminal that stdout is; 0 (no limit) when it is none.
int terminal_width();

}  // namespace ddpbench::bench
