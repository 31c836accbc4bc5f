// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of `ddpbench comm`: a row a collective and size. Private to reports/.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

struct CollectiveTables {
  std::string caption;
  TextTable collectives;           // a row a collective, in the report's order
  std::vector<std::string> notes;  // below it
  TextTable bandwidth;             // without columns when none was measured
};
// REQUIRES: the report has collectives. No text has control characters.
CollectiveTables collective_tables(const Report& report);

// As render_table. REQUIRES: the report has collectives.
std::string render_collectives(const Report& report, int width);

}  // namespace ddpbench::report
