// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "reports/data/report.h"

namespace ddpbench::report {

// Of the sources beside the commit that they are named by: "with changes"; "changes unknown" where
// the commit was given and nobody could look; empty where there were none, and without a commit.
std::string_view local_changes(const Generator& generator);

}  // namespace ddpbench::report
