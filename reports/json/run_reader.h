// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of report_reader. Private to reports/.
#pragma once

#include <optional>

#include "reports/data/report.h"
#include "reports/json/json_cursor.h"

namespace ddpbench::report {

Status read_status(const JsonCursor& value);
ErrorInfo read_error(const JsonCursor& value);
Run read_run(const JsonCursor& value);

}  // namespace ddpbench::report
