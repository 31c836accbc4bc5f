// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether enough files may be open for a run, asked before it is started. A run that meets the
// limit later cannot even accept its ranks' connections. Private to launch/.
#pragma once

#include <cstddef>

namespace ddpbench::launch {

// Raises the soft limit of open files (RLIMIT_NOFILE) where processes of `ranks` ranks with
// `inherited` descriptors, `per_process` ranks in each, or their supervisor, need more. Throws
// UnavailableError with both numbers where the hard limit is lower.
void allow_open_files(std::size_t ranks, std::size_t per_process, std::size_t inherited);

// How many files the supervisor has open at once for so many ranks, beside `open` before; and a
// process of `per_process` of them, beside those that it inherits.
std::size_t files_of_supervisor(std::size_t ranks, std::size_t open);
std::size_t files_of_process(std::size_t ranks, std::size_t per_process, std::size_t inherited);

}  // namespace ddpbench::launch
