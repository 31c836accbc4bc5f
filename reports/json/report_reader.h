// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads reports back, for everything that looks at a finished one (show, check, charts).
//
// Stricter than trusting, laxer than the schema: every key that Report holds must be there with its
// type, unknown keys are ignored (they may be added within a schema version). Values are such that
// arithmetic on them is safe: counts and times are not negative, numbers have finite squares, a
// world has a rank (json_cursor.h, run_reader.cpp). Files are bounded (json_limits.h), so that
// reading any file ends soon.
#pragma once

#include <string>

#include "reports/data/report.h"

namespace ddpbench::report {

// Throws ConfigError naming the file, the JSON pointer (or line and column) and what was expected:
// absent or unreadable file, no JSON, another schema version, missing key, wrong type or word.
Report read_report(const std::string& path);
// The same from text; `name` stands for the file in messages.
Report parse_report(const std::string& text, const std::string& name);

}  // namespace ddpbench::report
