// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A call of a Communicator as all its ranks see it, to plan what it sends.
#pragma once

#include <cstddef>

#include "parallel/comm/link_traffic.h"
#include "parallel/comm/operation.h"

namespace ddpbench::comm {

struct LinkCall {
  OperationKind kind = OperationKind::barrier;  // send: of a message; there is no recv
  int ranks = 0;                                // that take part: 0, 1, ...; unused of a message
  int root = 0;                                 // of rooted collectives; the sender of a message
  int receiver = 0;                             // of a message
  std::size_t bytes = 0;                        // of one rank's part (Operation::part)
};

}  // namespace ddpbench::comm
