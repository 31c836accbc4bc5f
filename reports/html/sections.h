// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of a page. Private to reports/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/charts/chart_data.h"
#include "reports/data/report_view.h"
#include "reports/html/table.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report {
struct HtmlGate;  // page.h
struct HtmlInput;
}  // namespace ddpbench::report

namespace ddpbench::report::html {

// report.css and report.js as the build embedded them (cmake/EmbedPageAssets.cmake). Each text is
// wrapped so that a page stays well-formed XML. The hash of exactly that text goes into the page's
// Content-Security-Policy, so that no other style or script applies.
struct Asset {
  std::string_view text;
  std::string_view hash;  // "sha256-...", base64
};
extern const Asset kStyle;
extern const Asset kScript;

// "simple_cnn on mnist": what the runs trained, each different one once.
std::string subject_of(const HtmlInput& input);

// The runs of all reports, in their order; with the report's name where there are several.
std::vector<RunRow> rows_of(const HtmlInput& input);

// "warning: text" as "Warning: text.".
std::string sentence(std::string text);

// Whether the page has sections about runs, and about collectives. Reports of `ddpbench comm` have
// no runs.
bool has_runs(const HtmlInput& input);
bool has_collectives(const HtmlInput& input);
// Whether a run on several devices is compared with one device. None is in reports of `ddpbench
// tune`, which compares settings with each other.
bool has_verdicts(const HtmlInput& input);
// Whether the reports are of several commits.
bool has_history(const HtmlInput& input);

// The contents of the sections; each may be written where the page has it (page.cpp).

// Comes first: what failed, and the first answer.
void write_summary(Markup& page, const HtmlInput& input);
// A row for each setting with what is needed to choose; folded away, all columns and repetitions.
void write_runs(Markup& page, const HtmlInput& input);
void write_pictures(Markup& page, const HtmlInput& input);
// A picture with its legend and notes, which stands in the same page once more with its values.
void write_small_figure(Markup& page, pictures::Picture picture);
// A picture with its legend, notes and values.
void write_figure(Markup& page, const pictures::Picture& picture);
// The settings over the commits of the reports.
void write_history(Markup& page, const HtmlInput& input);
// Says why each run on several devices is not faster.
void write_verdicts(Markup& page, const HtmlInput& input);
void write_collectives(Markup& page, const HtmlInput& input);
void write_gate(Markup& page, const HtmlInput& input);
// The verdict as an alert of the summary, with a link to that section.
void write_gate_verdict(Markup& page, const HtmlGate& gate);
void write_verification(Markup& page, const HtmlInput& input);
// The machine, software, command and configuration of each report; most of it is folded away.
void write_details(Markup& page, const HtmlInput& input);

}  // namespace ddpbench::report::html
