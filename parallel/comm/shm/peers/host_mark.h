// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tells which processes are on one host. For backends only.
#pragma once

#include <string>

namespace ddpbench::comm {

// A mark that is equal for processes that can reach each other through /proc/<pid>/fd: one boot of
// one host, one PID namespace.
std::string host_mark();

}  // namespace ddpbench::comm
