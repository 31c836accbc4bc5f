// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What training goes on from, whichever strategy ran, as named tensors on the host of rank 0, and
// back. A strategy lists its part of it (Strategy::parts); servers send and take theirs on command.
//
//   strategy.step(...);
//   tensors = gather_state(strategy, world);                  // on all workers, between steps
//   strategy.setup(context);                                  // elsewhere, with these weights
//   scatter_state(strategy, world, tensors, steps);
//
// Wire: to rank 0 all that is not there, once; to servers what they have, once. Workers that load
// read the file themselves, which costs no message and needs the file on each host.
//
// Memory: the flat buffer of gradients, whose content ends with its step. Where a rank has parts of
// it alone (zero2), rank 0 takes a whole one while it saves, and each rank while it loads. On the
// host, rank 0 has all tensors while it saves, and each rank while it loads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/nn/safetensors.h"
#include "parallel/comm/communicator.h"
#include "parallel/strategy.h"

namespace ddpbench {

// Returns on rank 0 what training goes on from: nn::export_checkpoint, and the slots as
// "optimizer.SLOT.PARAMETER". Those of replica r > 0 begin with "rankR.". Elsewhere nothing.
// Overwrites gradients. Collective over the workers, between steps. `world` may be null.
std::vector<nn::NamedTensor> gather_state(Strategy& strategy, comm::Communicator* world);

// Its weights and statistics alone.
std::vector<nn::NamedTensor> gather_weights(Strategy& strategy, comm::Communicator* world);

// Sets all but weights and the first replica's statistics from such tensors, which may come from
// another strategy or another number of replicas, and the number of steps. Throws ConfigError that
// names a slot that is missing. Collective over the workers, after Strategy::reset.
void scatter_state(Strategy& strategy, comm::Communicator* world,
                   const std::vector<nn::NamedTensor>& tensors, std::int64_t steps);

}  // namespace ddpbench
