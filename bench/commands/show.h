// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench show REPORT...`: the table of reports that were written before.
#pragma once

#include "bench/commands/subcommand.h"

namespace ddpbench::bench {

SubcommandEntry show_entry();

}  // namespace ddpbench::bench
