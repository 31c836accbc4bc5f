// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A report with a run of every kind: ok, not available, oversubscribed, failed, skipped.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report::test {

// Runs, in order: single, dp, ddp (with a planted slowness), ps (one server, oversubscribed), ddp
// (failed before a step), dp (skipped).
Report sample_report();
// The same report with text that tries to be markup or code, in every place that a chart shows.
Report hostile_report();
// A report of these runs, without an error of its own.
Report report_of(std::vector<Run> runs);
// The message with which parse_report("some.json") refuses a text, or kNothingThrown.
inline constexpr const char* kNothingThrown = "nothing was thrown";
std::string refusal(const std::string& text);
// The same for the sample report with the value at one JSON pointer replaced.
std::string refusal_with(const char* pointer, const nlohmann::ordered_json& value);
Run sample_run(const char* strategy, int world_size, double samples_per_s);

}  // namespace ddpbench::report::test
