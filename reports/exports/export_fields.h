// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Helpers of several exports. Private to reports/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reports/table/run_columns.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// A number, or a flag as 0 or 1; nothing for text and missing values.
std::optional<double> number_of(const FieldValue& value);
// The value as a label; empty where it is missing.
std::string label_of(const FieldValue& value);

// A value of RFC 4180 (sections 2.6 and 2.7).
std::string csv_quoted(const std::string& text);

// Text in which Markdown sees no markup, and a table of GitHub's Markdown.
std::string markdown_escaped(const std::string& text);
std::string markdown_table(const TextTable& table);

// The runs that ended well without planted faults, grouped by name. A name contains the device
// model and all settings that must be equal for a comparison, and nothing that differs between
// commits. Groups are in the order of their first runs.
using NamedRuns = std::pair<std::string, std::vector<const RunRow*>>;
std::vector<NamedRuns> clean_runs_by_name(std::span<const RunRow> rows);

// Milliseconds since 1970 of a report's "2026-01-31T12:00:00Z"; nothing for any other text.
std::optional<std::int64_t> unix_ms(const std::string& utc);

}  // namespace ddpbench::report
