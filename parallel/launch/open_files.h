// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether enough files may be open for a run, asked before it is started. A run that meets the
// limit later cannot even accept its ranks' connections.
#pragma once

#include <cstddef>

namespace ddpbench::launch {

// Raises the soft limit of open files (RLIMIT_NOFILE) if a rank process or the supervisor needs
// more. `ranks`: of the run; `per_process`: ranks in one process; `inherited`: descriptors that a
// process inherits. Throws UnavailableError with both numbers if the hard limit is lower.
void allow_open_files(std::size_t ranks, std::size_t per_process, std::size_t inherited);

// The same for a process to which the agents of `ranks` connect, as far as the hard limit allows.
// What is opened beyond that fails there.
void allow_open_files_of_listener(std::size_t ranks);

}  // namespace ddpbench::launch
