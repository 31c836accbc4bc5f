// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The tables of `ddpbench comm`. Private to reports/.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

struct CollectiveTables {
  std::string caption;
  TextTable collectives;           // a row for each of report.collectives, in their order
  std::vector<std::string> notes;  // shown below the table
  TextTable bandwidth;             // without columns when no bandwidth was measured
};
// REQUIRES: the report has collectives. No text has control characters.
CollectiveTables collective_tables(const Report& report);

// The same as render_table() (table.h). REQUIRES: the report has collectives.
std::string render_collectives(const Report& report, int width);

}  // namespace ddpbench::report
