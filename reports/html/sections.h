// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of a page that are words and tables. Private to reports/.
#pragma once

#include <string>

#include "reports/charts/chart_data.h"
#include "reports/html/markup.h"
#include "reports/html/page.h"
#include "reports/html/table.h"

namespace ddpbench::report::html {

// Opens a <section> with a heading; closed by page.close().
void open_section(Markup& page, const std::string& id, const std::string& heading);

// "simple_cnn on mnist (files)": what was trained, of all runs, each once.
std::string subject_of(const HtmlInput& input);

// What a reader wants to know first: what failed, which strategy is fastest on how many devices.
void write_summary(Markup& page, const HtmlInput& input, const ScalingChart& scaling);
// A row a run, and why figures are missing.
void write_runs(Markup& page, const HtmlInput& input);
// Why each run on several devices is not faster.
void write_verdicts(Markup& page, const HtmlInput& input);
void write_verification(Markup& page, const HtmlInput& input);
// Folded away: machine, software, command and configuration of each report.
void write_details(Markup& page, const HtmlInput& input);

}  // namespace ddpbench::report::html
