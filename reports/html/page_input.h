// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The input of an HTML page: reports, and the gate's verdict where there is a baseline.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

struct GateResult;  // gate/gate.h

// The gate's result for the page's runs.
struct HtmlGate {
  std::vector<std::string> baseline;  // names of the baseline's files
  std::shared_ptr<const GateResult> result;
  std::string refusal;  // why nothing was compared; only without a result
};

struct HtmlInput {
  std::vector<std::string> names;  // of the files, as the user wrote them
  std::vector<Report> reports;     // one for each name
  std::optional<HtmlGate> gate = {};
};

}  // namespace ddpbench::report
