// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The Communicator over a LibraryEngine. Buffers need no registration there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/comm_module.h"
#include "parallel/comm/library/library_engine.h"

namespace ddpbench::comm {

// All `size` ranks in their order, as a part of themselves.
SplitPart whole_world(int rank, int size);

// An exchange through the store, for ranks that are not connected yet. It throws CommTimeout naming
// a rank that does not come in options.timeout_s, and what options.check throws. `store` and
// `options` outlive it. To be called once.
TextExchange exchange_in(Store& store, int rank, int size, const EngineOptions& options);

std::unique_ptr<Communicator> make_library_communicator(const std::string& backend,
                                                        std::unique_ptr<LibraryEngine> engine,
                                                        const EngineOptions& options);

}  // namespace ddpbench::comm
