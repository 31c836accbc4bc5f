// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench html`: one self-contained page about reports, which loads nothing from the network.
// docs/html-report.md describes its parts.
#pragma once

#include <string>

#include "reports/html/page_input.h"

namespace ddpbench::report {

// The page as UTF-8 text, well-formed as HTML and as XML. Text of a report is never markup in it:
// names and messages may be hostile. REQUIRES: at least one report.
std::string html_page(const HtmlInput& input);

}  // namespace ddpbench::report
