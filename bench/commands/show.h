// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench show REPORT...`: runs of reports that were written before, as a table or exported.
#pragma once

#include "bench/commands/subcommand.h"

namespace ddpbench::bench {

SubcommandEntry show_entry();

}  // namespace ddpbench::bench
