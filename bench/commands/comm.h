// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench comm`: collectives alone, as users of nccl-tests know them.
#pragma once

#include "bench/commands/subcommand.h"

namespace ddpbench::bench {

SubcommandEntry comm_entry();

}  // namespace ddpbench::bench
