// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "gloo" backend connects processes or threads over TCP. Gloo makes the connections and moves
// the bytes; the collectives are ours, because those of Gloo end the process when ranks disagree,
// and cannot be interrupted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/comm_module.h"

namespace ddpbench::comm {

// The contracts are those of CommModule.
std::unique_ptr<Communicator> make_gloo(Store& store, int rank, int size,
                                        const EngineOptions& options);
std::vector<std::unique_ptr<Communicator>> make_thread_gloo(int size, const EngineOptions& options);

std::string gloo_version();

}  // namespace ddpbench::comm
