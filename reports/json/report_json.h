// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A report as JSON (schema/report-1.schema.json), written and read back. field_lists.h has the
// fields.
//
// The reader is stricter than trusting and laxer than the schema: every key that Report holds must
// be there with its type, and unknown keys are ignored (they may be added within a schema version).
// Arithmetic on the values is safe: counts and times are not negative, numbers have finite squares,
// a world has a rank. Files are bounded (json_text.h), so that reading any file ends soon.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/data/report.h"

namespace ddpbench::report {

// Exactly the keys of the schema. A missing figure without a reason gets one from the run's status.
// Throws InternalError, with the JSON pointer, for a number that is not finite (a diverged
// train_loss apart), and for a failed report or run without an error or a skipped run without a
// reason.
nlohmann::ordered_json to_json(const Report& report);

// To a file, whole or not at all, and without `force` only to a new one (base/file.h).
void write_report(const Report& report, const std::string& path, bool force);

// Throws ConfigError naming the file, the JSON pointer (or line and column) and what was expected:
// absent or unreadable file, no JSON, another schema version, missing key, wrong type or word.
Report read_report(const std::string& path);
// Reads a report from text; `name` stands for the file in messages.
Report parse_report(const std::string& text, const std::string& name);

}  // namespace ddpbench::report
