// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the summary table says of each run. Private to reports/.
#pragma once

#include "reports/report.h"
#include "reports/table_layout.h"

namespace ddpbench::report {

// A row a run, in the report's order; reasons for missing figures go to `notes`.
TextTable run_table(const Report& report, Footnotes& notes);

}  // namespace ddpbench::report
