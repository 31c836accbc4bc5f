// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What an HTML page is made of: reports, and the gate's verdict where there is a baseline.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

struct GateResult;  // gate/gate.h

// What the gate says of the page's runs.
struct HtmlGate {
  std::vector<std::string> baseline;  // names of its files
  std::shared_ptr<const GateResult> result;
  std::string refusal;  // without a result: why nothing was compared
};

struct HtmlInput {
  std::vector<std::string> names;  // of the files, as the user wrote them
  std::vector<Report> reports;     // as many
  std::optional<HtmlGate> gate = {};
};

}  // namespace ddpbench::report
