// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gate's result for a comment on a pull request: one row for each pair, all figures folded
// away.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_text.h"

namespace ddpbench::report {
namespace {

const char* sign(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::pass:
      return "✅";
    case GateVerdict::improved:
      return "🚀";
    case GateVerdict::inconclusive:
      return "❔";
    case GateVerdict::regressed:
      return "❌";
  }
  return "";
}

std::string verdict_cell(GateVerdict verdict) {
  return fmt::format("{} {}", sign(verdict), to_string(verdict));
}

// The text on one line, with markup escaped.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      if (std::string_view("\\`*_{}[]|#@").find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

const FigureVerdict* figure_named(const PairVerdict& pair, std::string_view name) {
  const auto found = std::ranges::find(pair.figures, name, &FigureVerdict::name);
  return found == pair.figures.end() ? nullptr : &*found;
}

std::string pair_row(const PairVerdict& pair) {
  const FigureVerdict* step =
      figure_named(pair, pair.key.collective ? "median_time_s" : "median_step_s");
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", plain(pair_title(pair)),
                     step ? figure_text(step->name, step->base) : "-",
                     step ? figure_text(step->name, step->candidate) : "-",
                     step ? change_text(step->name, step->change) : "-",
                     step ? interval_text(*step) : "",
                     fmt::format("{} / {}", pair.candidate_repetitions, pair.base_repetitions),
                     verdict_cell(pair.verdict));
}

std::string details(const PairVerdict& pair) {
  std::string text = fmt::format(
      "\n**{}**\n\n| figure | baseline | new | change | interval | p "
      "| verdict |\n|---|--:|--:|--:|--:|--:|---|\n",
      plain(pair_title(pair)));
  for (const FigureVerdict& figure : pair.figures) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", figure_heading(figure),
                        figure_text(figure.name, figure.base),
                        figure_text(figure.name, figure.candidate),
                        change_text(figure.name, figure.change), interval_text(figure),
                        plain(p_text(figure)), verdict_cell(figure.verdict));
  }
  return text;
}

// The lines that a reader must not miss: figures that are no PASS, notes, uncompared runs.
std::string findings(const GateResult& result) {
  std::string text;
  for (const PairVerdict& pair : result.pairs) {
    for (const FigureVerdict& figure : pair.figures) {
      if (!needs_words(figure, pair)) continue;
      text += fmt::format("- {} {}: {}\n", verdict_cell(figure.verdict), plain(pair_title(pair)),
                          plain(figure_sentence(figure, result.options)));
    }
    for (const std::string& note : pair.notes) {
      text += fmt::format("- {}: {}\n", plain(pair_title(pair)), plain(note));
    }
  }
  for (const UncomparedRuns& runs : result.uncompared) {
    text += fmt::format("- not compared: {}\n", plain(uncompared_text(runs)));
  }
  for (const std::string& note : result.notes) text += fmt::format("- {}\n", plain(note));
  return text;
}

}  // namespace

std::string render_gate_markdown(const GateResult& result) {
  if (!result.refusal.empty()) {
    return fmt::format("### ❗ ddpbench check\n\n{}\n", plain(gate_summary(result)));
  }
  std::string text =
      fmt::format("### {} ddpbench check\n\n{}\n\n", sign(result.verdict), gate_summary(result));
  text += fmt::format(
      "| pair | baseline | new | change of the median | {:.0f} % interval | repetitions "
      "| verdict |\n|---|--:|--:|--:|--:|--:|---|\n",
      100 * (1 - 2 * result.options.alpha));
  for (const PairVerdict& pair : result.pairs) text += pair_row(pair);
  const std::string lines = findings(result);
  if (!lines.empty()) text += '\n' + lines;
  text += "\n<details><summary>All figures</summary>\n";
  for (const PairVerdict& pair : result.pairs) text += details(pair);
  return text + fmt::format("\n{}\n\n</details>\n", plain(rule_sentence(result)));
}

}  // namespace ddpbench::report
