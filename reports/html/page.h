// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench html`: one self-contained page about reports, which loads nothing from the network.
// docs/html-report.md describes its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate.h"

namespace ddpbench::report {

// The gate's result for the page's runs.
struct HtmlGate {
  std::vector<std::string> baseline;  // names of the baseline's files
  GateResult result;
};

struct HtmlInput {
  std::vector<std::string> names;  // of the files, as the user wrote them
  std::vector<Report> reports;     // one for each name
  std::optional<HtmlGate> gate = {};
  std::optional<std::uint64_t> device_bytes = {};  // that the answer judges runs against
};

// The page as UTF-8 text, well-formed as HTML and as XML. Text of a report is never markup in it:
// names and messages may be hostile. REQUIRES: at least one report.
std::string html_page(const HtmlInput& input);

}  // namespace ddpbench::report
