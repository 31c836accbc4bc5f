// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench html REPORT...`: reports as a page for the browser.
#pragma once

#include "bench/commands/subcommand.h"

namespace ddpbench::bench {

SubcommandEntry html_entry();

}  // namespace ddpbench::bench
