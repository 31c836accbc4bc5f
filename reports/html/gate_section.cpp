// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The section that compares the page's runs with a baseline by the regression gate.
#include <fmt/format.h>

#include "reports/gate/gate.h"
#include "reports/gate/gate_text.h"
#include "reports/html/sections.h"

namespace ddpbench::report::html {
namespace {

Cell verdict_cell(GateVerdict verdict) {
  Cell result = cell(static_cast<double>(verdict), std::string(to_string(verdict)));
  if (verdict == GateVerdict::regressed) result.kind = "bad";
  if (verdict == GateVerdict::improved || verdict == GateVerdict::pass) result.kind = "good";
  return result;
}

// A missing value sorts last.
Cell known_cell(const std::optional<double>& order, const std::string& text) {
  return order ? cell(*order, text) : missing_cell();
}

Table figures_table(const PairVerdict& pair, const GateOptions& options) {
  Table table{
      "Figures of " + pair_title(pair),
      {{"figure", true},
       {"baseline"},
       {"new"},
       {"change"},
       {fmt::format("{:.0f} % interval", 100 * (1 - 2 * options.alpha))},
       {"p", false,
        "of such a change where there is none, one-sided, corrected for the number of tests"},
       {"verdict", true}},
      {},
      {}};
  for (const FigureVerdict& figure : pair.figures) {
    const std::string interval = interval_text(figure);
    table.rows.push_back({cell(figure_heading(figure)),
                          known_cell(figure.base, figure_text(figure.name, figure.base)),
                          known_cell(figure.candidate, figure_text(figure.name, figure.candidate)),
                          known_cell(figure.change, change_text(figure.name, figure.change)),
                          interval.empty() ? missing_cell() : cell(interval),
                          interval.empty() ? missing_cell() : cell(p_text(figure)),
                          verdict_cell(figure.verdict)});
  }
  return table;
}

void write_pair(Markup& page, const PairVerdict& pair, const GateOptions& options) {
  page.open("article").leaf("h3", pair_title(pair));
  const Cell verdict = verdict_cell(pair.verdict);
  page.open("p").leaf("span", {{verdict.kind.empty() ? "" : "class", verdict.kind}}, verdict.text);
  page.text(": " + repetitions_text(pair) + ".").close();
  page.open("ul", {{"class", "notes"}});
  for (const FigureVerdict& figure : pair.figures) {
    if (needs_words(figure, pair)) page.leaf("li", figure_sentence(figure, options) + ".");
  }
  for (const std::string& note : pair.notes) page.leaf("li", note);
  page.close();
  write_table(page, figures_table(pair, options));
  page.close().trusted("\n");
}

void write_result(Markup& page, const GateResult& result) {
  page.leaf("p", {{"class", result.verdict == GateVerdict::regressed ? "alert bad" : "lead"}},
            gate_summary(result) + ".");
  page.open("ul", {{"class", "notes"}});
  for (const UncomparedRuns& runs : result.uncompared) {
    page.leaf("li", "Not compared: " + uncompared_text(runs));
  }
  for (const std::string& note : result.notes) page.leaf("li", note);
  page.leaf("li", rule_sentence(result)).close();
  for (const PairVerdict& pair : result.pairs) write_pair(page, pair, result.options);
}

const char* alert_of(GateVerdict verdict) {
  if (verdict == GateVerdict::regressed) return "alert bad";
  return verdict == GateVerdict::inconclusive ? "alert warning" : "alert good";
}

}  // namespace

void write_gate_verdict(Markup& page, const HtmlGate& gate) {
  page.open("p", {{"class", gate.result ? alert_of(gate.result->verdict) : "alert warning"}});
  page.text(fmt::format("Against {}: ", fmt::join(gate.baseline, ", ")));
  page.leaf("strong", gate.result ? gate_summary(*gate.result) : "not compared: " + gate.refusal);
  page.text(". ").leaf("a", {{"href", "#gate"}}, "What was compared").close();
}

void write_gate(Markup& page, const HtmlGate& gate) {
  open_section(page, "gate", "Against the baseline");
  page.leaf("p", {{"class", "about"}},
            fmt::format("What ddpbench check says with its usual limits; the baseline is {}.",
                        fmt::join(gate.baseline, ", ")));
  if (gate.result) {
    write_result(page, *gate.result);
  } else {
    page.leaf("p", {{"class", "alert warning"}}, "Not compared: " + gate.refusal);
  }
  page.close().trusted("\n");
}

}  // namespace ddpbench::report::html
