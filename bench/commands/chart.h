// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/commands/subcommand.h"

namespace ddpbench::bench {

SubcommandEntry chart_entry();

}  // namespace ddpbench::bench
