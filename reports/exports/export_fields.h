// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What several exports need. Private to reports/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reports/table/run_columns.h"

namespace ddpbench::report {

// Numbers and flags (0 or 1) as a number; nothing where missing or text.
std::optional<double> number_of(const FieldValue& value);
// As a label; empty where missing.
std::string label_of(const FieldValue& value);

// Milliseconds since 1970 of a report's "2026-01-31T12:00:00Z"; nothing for any other text.
std::optional<std::int64_t> unix_ms(const std::string& utc);

}  // namespace ddpbench::report
