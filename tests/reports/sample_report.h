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
// The same with words that try to be code, in every place that a chart shows.
Report hostile_report();
// A report of these runs and nothing else that failed.
Report report_of(std::vector<Run> runs);
// What parse_report says against a text ("some.json"); kNothingThrown when it takes it.
inline constexpr const char* kNothingThrown = "nothing was thrown";
std::string refusal(const std::string& text);
// The same for the sample report with one value, named by its JSON pointer, replaced.
std::string refusal_with(const char* pointer, const nlohmann::ordered_json& value);
Run sample_run(const char* strategy, int world_size, double samples_per_s);

}  // namespace ddpbench::report::test
