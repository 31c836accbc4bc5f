// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench html`: reports as one page that holds everything it needs and asks the network for
// nothing. docs/html-report.md says what stands where.
#pragma once

#include <string>

#include "reports/html/page_input.h"

namespace ddpbench::report {

// The page's text, UTF-8, well-formed as HTML and as XML. Whatever stands in a report is text there
// and never markup: names and messages may be hostile. REQUIRES: at least one report.
std::string html_page(const HtmlInput& input);

}  // namespace ddpbench::report
