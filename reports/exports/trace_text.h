// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A trace as text from one process to another of the same program; it loses nothing.
#pragma once

#include <string>
#include <string_view>

#include "reports/exports/trace.h"

namespace ddpbench::report {

// JSON whose first line and last are a brace alone, as in a report, with a line for each event: a
// reader of lines finds both in one stream.
std::string trace_text(const Trace& trace);
// Whether `text` begins like that: no report does.
bool is_trace_text(std::string_view text);
// Throws ConfigError for anything that trace_text() does not write.
Trace parse_trace_text(const std::string& text);

}  // namespace ddpbench::report
