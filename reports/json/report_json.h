// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A report as JSON (schema/report-1.schema.json), written and read. fields.h says how.
//
// The reader requires every key that Report holds, with its type. It ignores unknown keys, which
// may be added within a schema version. Arithmetic on its values is safe: counts and times are not
// negative, squares of numbers are finite, a world has at least one rank. Reading any file ends
// soon, as files are bounded.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/data/report.h"

namespace ddpbench::report {

// Has exactly the keys of the schema. A missing figure without a reason gets one from the run's
// status. Throws InternalError, with the key, for a number that is not finite (except a
// diverged train_loss), for a failed report or run without an error, and for a skipped run without
// a reason.
nlohmann::ordered_json to_json(const Report& report);

// The text of a report's file.
std::string report_text(const Report& report);
// Writes the whole file or nothing. Without `force` the file must be new (base/file.h).
void write_report(const Report& report, const std::string& path, bool force);

// Reads a file, or standard input where `path` is "-" (kStandardStream), or a pipe.
// Throws ConfigError with the file, the JSON pointer (or line and column) and what was expected:
// for an absent or unreadable file, no JSON, another schema version, a missing key, a wrong type or
// word.
Report read_report(const std::string& path);
// The same from text. `name` stands for the file in messages.
Report parse_report(const std::string& text, const std::string& name);

}  // namespace ddpbench::report
