// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of one part of a split communicator share: their first rank makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/operation.h"
#include "parallel/comm/shm/peers/peer_memory.h"

namespace ddpbench::comm {

// Collective. The shared memory of this rank's part, null where that is empty. `Memory` is made
// and opened as ControlBlock is. The first member makes it; threads get a pointer to its owner,
// processes a handle.
template <typename Memory>
std::shared_ptr<Memory> share_in_part(const SplitPart& part, const std::string& name,
                                      FutexScope scope, const TextExchange& exchange) {
  using Owner = std::shared_ptr<Memory>;
  Owner shared = part.leads() ? Memory::create(name, part.size(), scope) : nullptr;
  std::string token;
  if (part.leads()) {
    token = scope == FutexScope::host ? shared->handle()
                                      : std::to_string(reinterpret_cast<std::uintptr_t>(&shared));
  }
  const std::vector<std::string> tokens = exchange(token);
  if (!part.leads() && part.size() > 0) {
    const std::string& offered = tokens[static_cast<std::size_t>(part.members.front())];
    shared =
        scope == FutexScope::host
            ? Memory::open(offered, part.size())
            : *reinterpret_cast<const Owner*>(static_cast<std::uintptr_t>(std::stoull(offered)));
  }
  exchange("");  // what the token names lasts until all have taken it
  return shared;
}

}  // namespace ddpbench::comm
