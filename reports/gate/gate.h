// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The regression gate: compares the runs of new reports with those of a baseline. docs/gate.md
// explains how it decides and how often it errs. Start reading at check_reports().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate_result.h"

namespace ddpbench::report {

// Throws ConfigError when settings of a pair differ, with their keys and both values, and when no
// runs can be compared. The reports need to live only during the call.
GateResult check_reports(std::span<const Report> candidate, std::span<const Report> base,
                         const GateOptions& options);

// What allow_mismatch takes: the keys of settings that must be equal in a pair, as these reports
// have them ("device_model", "optimizer/lr", ...), and their parts before and after the "/".
// "optimizer" stands for all of "optimizer/...".
std::vector<std::string> gate_setting_keys(std::span<const Report> candidate,
                                           std::span<const Report> base);

// The result of a check that could not be made. The outputs show it, so that an earlier file is not
// mistaken for the result of this check.
GateResult refused_check(const GateOptions& options, GateOrigin origin, std::string refusal);

// One line: the verdict, and how many pairs got each verdict; or why nothing was compared.
std::string gate_summary(const GateResult& result);
// The whole result for people, at most `width` columns wide when width > 0.
std::string render_gate_table(const GateResult& result, int width);
// Markdown for a comment on a pull request.
std::string render_gate_markdown(const GateResult& result);
// JSON as schema/check-1.schema.json describes it.
nlohmann::ordered_json gate_json(const GateResult& result);
std::string render_gate_json(const GateResult& result);
// JUnit XML: a suite for each pair, a case for each figure. REGRESSED is a failure, INCONCLUSIVE an
// error, and so is a check that could not be made.
std::string render_gate_junit(const GateResult& result);
// Workflow commands of GitHub Actions: ::error for a regression, ::warning for inconclusive pairs,
// uncompared runs and notes, ::notice for the summary.
std::string render_gate_github(const GateResult& result);

}  // namespace ddpbench::report
