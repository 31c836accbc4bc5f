// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Helpers of several exports. Private to reports/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reports/table/run_columns.h"

namespace ddpbench::report {

// A number, or a flag as 0 or 1; nothing for text and missing values.
std::optional<double> number_of(const FieldValue& value);
// The value as a label; empty where it is missing.
std::string label_of(const FieldValue& value);

// Milliseconds since 1970 of a report's "2026-01-31T12:00:00Z"; nothing for any other text.
std::optional<std::int64_t> unix_ms(const std::string& utc);

}  // namespace ddpbench::report
