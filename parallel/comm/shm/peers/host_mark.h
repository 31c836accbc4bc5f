// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which processes are on one host. For backends only.
#pragma once

#include <string>

namespace ddpbench::comm {

// Equal for processes that can reach each other through /proc/<pid>/fd: one boot of one host, one
// PID namespace.
std::string host_mark();

}  // namespace ddpbench::comm
