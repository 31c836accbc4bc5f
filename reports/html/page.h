// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench html`: reports as one page that holds everything it needs and asks the network for
// nothing. docs/html-report.md says what stands where.
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

// The page's text, UTF-8, well-formed as HTML and as XML. Whatever stands in a report is text there
// and never markup: names and messages may be hostile. REQUIRES: at least one report.
std::string html_page(const HtmlInput& input);

}  // namespace ddpbench::report
