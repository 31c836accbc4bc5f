// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The regression gate: runs of new reports against those of a baseline. docs/gate.md explains how
// it decides and how often it errs. Start reading at check_reports().
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate_result.h"

namespace ddpbench::report {

// Throws ConfigError when settings of a pair differ (naming keys and both values) and when nothing
// can be compared. The reports must outlive the call only.
GateResult check_reports(std::span<const Report> fresh, std::span<const Report> base,
                         const GateOptions& options);

// What must be equal in a pair: "device_model", "optimizer/lr", "strategy_options/overlap", ..., as
// the reports have it. allow_mismatch takes these, and "optimizer" for all of "optimizer/...".
std::vector<std::string> gate_setting_keys(std::span<const Report> fresh,
                                           std::span<const Report> base);

// One line: the verdict and how many pairs have which.
std::string gate_summary(const GateResult& result);
// Everything a person needs, at most `width` columns when width > 0.
std::string render_gate_table(const GateResult& result, int width);
// For a pull-request comment.
std::string render_gate_markdown(const GateResult& result);
// As schema/check-1.schema.json says.
nlohmann::ordered_json gate_json(const GateResult& result);
std::string render_gate_json(const GateResult& result);
// JUnit XML: a suite a pair, a case a figure; REGRESSED is a failure, INCONCLUSIVE an error.
std::string render_gate_junit(const GateResult& result);
// Workflow commands of GitHub Actions: an ::error a regression, a ::warning for what is
// inconclusive or was not compared, a ::notice with the sum.
std::string render_gate_github(const GateResult& result);

}  // namespace ddpbench::report
