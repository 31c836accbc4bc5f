// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What is compared on a page: its runs with a baseline by the regression gate, settings over
// several commits, and runs with one device: why they are not faster, and whether they computed the
// right thing.
#include <fmt/format.h>

#include <algorithm>

#include "reports/data/report_view.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_parts.h"
#include "reports/html/page.h"
#include "reports/html/sections.h"
#include "reports/metrics/history.h"
#include "reports/pictures/picture.h"
#include "reports/why/why.h"

namespace ddpbench::report::html {
namespace {

Cell verdict_cell(GateVerdict verdict) {
  Cell result(static_cast<double>(verdict), std::string(to_string(verdict)));
  if (verdict == GateVerdict::regressed) result.kind = "bad";
  if (verdict == GateVerdict::improved || verdict == GateVerdict::pass) result.kind = "good";
  return result;
}

Table page_figures(const PairVerdict& pair, const GateOptions& options) {
  Table table = page_table(figures_table(pair, options), "Figures of " + pair_title(pair));
  for (std::size_t i = 0; i < pair.figures.size(); ++i) {
    table.rows[i][3].order = pair.figures[i].change;  // below 0 for the better
    table.rows[i].back() = verdict_cell(pair.figures[i].verdict);
  }
  return table;
}

void write_pair(Markup& page, const PairVerdict& pair, const GateOptions& options) {
  page.open("article").leaf("h3", pair_title(pair));
  const Cell verdict = verdict_cell(pair.verdict);
  page.open("p").leaf("span", {{verdict.kind.empty() ? "" : "class", verdict.kind}}, verdict.text);
  page.text(": " + repetitions_text(pair) + ".").close();
  write_list(page, pair_lines(pair), "notes");
  write_table(page, page_figures(pair, options));
  page.close().trusted("\n");
}

// "ddp, 2 devices: 12.4 % slower than base.json": what decided on the worst pair.
std::string gate_headline(const GateResult& result, const std::string& baseline) {
  const auto worst = std::ranges::max_element(result.pairs, {}, [](const PairVerdict& one) {
    return std::pair(one.verdict, one.figures.empty() ? 0 : one.figures[0].change.value_or(0));
  });
  if (worst == result.pairs.end()) return fmt::format("Not compared with {}", baseline);
  const FigureVerdict* const figure = deciding_figure(*worst);
  if (figure == nullptr) return fmt::format("{}: {}", pair_title(*worst), worst->notes.at(0));
  const std::string change = change_words(*figure);
  const char* const than = change.ends_with("fast")                              ? "as"
                           : change.ends_with("er") || change.ends_with("worse") ? "than"
                                                                                 : "against";
  const bool worse = change.ends_with("worse") || change.ends_with("slower");
  const char* const sure = worst->verdict == GateVerdict::pass && worse  ? ", as allowed"
                           : worst->verdict == GateVerdict::inconclusive ? ", not sure"
                                                                         : "";
  return fmt::format("{}: {} {} {}{}", pair_title(*worst), change, than, baseline, sure);
}

const char* alert_of(const GateResult& result) {
  if (result.verdict == GateVerdict::regressed) return "alert bad";
  const bool open = result.verdict == GateVerdict::inconclusive || !result.refusal.empty();
  return open ? "alert warning" : "alert good";
}

Table parts_table(const Verdict& verdict) {
  Table table{"Parts of a step", {{"part", true}, {"ms"}, {"share, %"}, {"beyond single, ms"}}};
  for (const VerdictPart& part : verdict.parts) {
    table.rows.push_back({part.title, fixed_cell(part.seconds.value, 1e-3, 2),
                          fixed_cell(part.share.value, 0.01, 1),
                          fixed_cell(part.lost_s.value, 1e-3, 2)});
  }
  return table;
}

void write_verdict(Markup& page, const std::string& name, const Verdict& verdict) {
  page.open("article", {{"class", "verdict"}}).leaf("h3", name);
  page.leaf("p", sentence(verdict.sentence));
  if (!verdict.advice.empty()) {
    page.open("p", {{"class", "advice"}}).leaf("strong", "What would help: ");
    page.text(sentence(verdict.advice)).close();
  }
  if (!verdict.parts.empty()) write_folded_table(page, "Parts of a step", parts_table(verdict));
  page.close().trusted("\n");
}

std::vector<Cell> verification_row(const std::string& name, const Verification& verification) {
  Cell status(verification.status);
  if (verification.status == "passed") status.kind = "good";
  if (verification.status == "failed") status.kind = "bad";
  const auto small = [](const Figure& figure) {
    return figure.value ? Cell(*figure.value, fmt::format("{:.2g}", *figure.value)) : Cell("");
  };
  const auto& equal = verification.replicas_bit_equal;
  std::string place = verification.worst_tensor;
  if (verification.worst_step) place += fmt::format(" in step {}", *verification.worst_step);
  return {name,
          std::move(status),
          small(verification.max_relative_error),
          small(verification.tolerance),
          std::string(!equal   ? ""
                      : *equal ? "yes"
                               : "no"),
          verification.worst_tensor.empty() ? "" : place,
          verification.reason};
}

// "ddp on 2 devices (batch 32), repetition 1 (a.json)"; the file only where there are several.
std::string heading(const HtmlInput& input, std::size_t report, const std::string& name) {
  return input.reports.size() > 1 ? fmt::format("{} ({})", name, input.names[report]) : name;
}

}  // namespace

void write_gate_verdict(Markup& page, const HtmlGate& gate) {
  const std::string baseline = joined(gate.baseline, ", ");
  page.leaf("p", {{"class", "headline"}}, gate_headline(gate.result, baseline));
  page.open("p", {{"class", alert_of(gate.result)}});
  page.text(fmt::format("Against {}: ", baseline)).leaf("strong", gate_summary(gate.result));
  page.text(". ").leaf("a", {{"href", "#gate"}}, "What was compared").close();
}

void write_gate(Markup& page, const HtmlInput& input) {
  const GateResult& result = input.gate->result;
  page.leaf("p", {{"class", "about"}},
            fmt::format("What ddpbench check says with its usual limits; the baseline is {}.",
                        fmt::join(input.gate->baseline, ", ")));
  page.leaf("p", {{"class", alert_of(result)}}, sentence(gate_summary(result)));
  write_list(page, remarks(result), "notes");
  for (const PairVerdict& pair : result.pairs) write_pair(page, pair, result.options);
}

bool has_history(const HtmlInput& input) {
  const History history = history_of(rows_of(input));
  return history.commits.size() > 1 && !history.lines.empty();
}

void write_history(Markup& page, const HtmlInput& input) {
  const History history = history_of(rows_of(input));
  page.leaf("p", {{"class", "about"}},
            order_words(history) +
                ". Whether a change is one of the program is for ddpbench check to say, of two "
                "commits that were measured in turn.");
  write_figure(page, pictures::history_picture(history));
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] -= 'a' - 'A';
  return text + ".";
}

bool has_verdicts(const HtmlInput& input) {
  return std::ranges::any_of(input.reports, [](const Report& report) {
    return std::ranges::any_of(all_runs(report), is_explained);
  });
}

void write_verdicts(Markup& page, const HtmlInput& input) {
  page.leaf("p", {{"class", "about"}},
            "Each setting on several devices against one device; of repetitions the medians.");
  page.open("div", {{"class", "verdicts"}});
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const RunNames names(input.reports[i]);
    for (const Explanation& one : explanations(all_runs(input.reports[i]))) {
      write_verdict(page, heading(input, i, names.setting(*one.runs[0].run)), one.verdict);
    }
  }
  page.close();
}

void write_verification(Markup& page, const HtmlInput& input) {
  page.leaf("p", {{"class", "about"}},
            "Before anything is timed, each run takes a few steps beside one device that computes "
            "the same batches; the updates of every tensor are compared in every step.");
  Table table{"Verification of each run",
              {{"run", true},
               {"status", true},
               {"max relative error"},
               {"tolerance"},
               {"replicas equal", true, "bit for bit"},
               {"worst tensor", true},
               {"reason", true}}};
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const RunNames names(input.reports[i]);
    for (const Run& run : input.reports[i].runs) {
      table.rows.push_back(
          verification_row(heading(input, i, names.with_repetition(run)), run.verification));
    }
  }
  write_table(page, table);
}

}  // namespace ddpbench::report::html
