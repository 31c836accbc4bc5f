// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of engines that are other projects' libraries, as functions of one rank: the whole
// conformance suite, messages, groups, and communicators that are split off. They throw when
// something is wrong. And calls that ranks do not make alike. Gloo runs them between threads and
// processes of a test, MPI under mpirun.
#pragma once

#include <span>
#include <string_view>

#include "parallel/comm/communicator.h"

namespace ddpbench::comm::testing {

struct EngineCheck {
  std::string_view name;  // a test's name
  void (*run)(Communicator& c);
};
std::span<const EngineCheck> engine_checks();

// Calls of which rank 0 makes another than its peer, so that both are told that ranks disagree. A
// communicator is of no use afterwards. REQUIRES: 2 ranks.
std::span<const EngineCheck> disagreements();

}  // namespace ddpbench::comm::testing
