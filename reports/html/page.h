// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench html`: one self-contained page about reports, which loads nothing from the network.
// docs/html-report.md describes its parts.
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

// The page as UTF-8 text, well-formed as HTML and as XML. Text of a report is never markup in it:
// names and messages may be hostile. REQUIRES: at least one report.
std::string html_page(const HtmlInput& input);

}  // namespace ddpbench::report
