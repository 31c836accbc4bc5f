// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of a page. Private to reports/.
#pragma once

#include <string>

#include "reports/charts/chart_data.h"
#include "reports/html/page_input.h"
#include "reports/html/table.h"

namespace ddpbench::report::html {

// Opens a <section> with a heading; closed by page.close().
void open_section(Markup& page, const std::string& id, const std::string& heading);

// "simple_cnn on mnist (files)": what was trained, of all runs, each once.
std::string subject_of(const HtmlInput& input);

// Whether sections about runs have something to say, sections about collectives: reports of
// `ddpbench comm` have no runs.
bool has_runs(const HtmlInput& input);
bool has_collectives(const HtmlInput& input);

// What a reader wants to know first: what failed, which strategy is fastest on how many devices.
void write_summary(Markup& page, const HtmlInput& input, const ScalingChart& scaling);
// Parts of the summary: an alert for everything that makes figures less certain than they look, and
// what `ddpbench tune` concluded and tried. Nothing where a report has neither.
void write_warnings(Markup& page, const HtmlInput& input);
void write_tuning(Markup& page, const HtmlInput& input);
// A row a run, and why figures are missing.
void write_runs(Markup& page, const HtmlInput& input);
void write_pictures(Markup& page, const HtmlInput& input, const ScalingChart& scaling);
// Why each run on several devices is not faster.
void write_verdicts(Markup& page, const HtmlInput& input);
// REQUIRES: a report of `ddpbench comm` is among them.
void write_collectives(Markup& page, const HtmlInput& input);
void write_gate(Markup& page, const HtmlGate& gate);
void write_verification(Markup& page, const HtmlInput& input);
// Folded away: machine, software, command and configuration of each report.
void write_details(Markup& page, const HtmlInput& input);

}  // namespace ddpbench::report::html
