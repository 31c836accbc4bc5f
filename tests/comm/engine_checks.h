// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of engines that are other projects' libraries, as functions of one rank: the whole
// conformance suite, messages, groups, and communicators that are split off. They throw when
// something is wrong. Gloo runs them between threads and processes of a test, MPI under mpirun.
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

}  // namespace ddpbench::comm::testing
