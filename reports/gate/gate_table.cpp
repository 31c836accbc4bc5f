// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gate's result on a terminal: a table for each pair, with sentences below it.
#include <fmt/format.h>

#include "base/text.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_text.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {
namespace {

std::string figure_rows(const PairVerdict& pair, const GateOptions& options, std::size_t width) {
  if (pair.figures.empty()) return "";
  TextTable table;
  table.keys = 1;
  const std::string interval = fmt::format("{:.0f} % interval", 100 * (1 - 2 * options.alpha));
  table.columns = {{"", "figure", true, false, {}},  {"", "baseline", false, false, {}},
                   {"", "new", false, false, {}},    {"", "change", false, false, {}},
                   {"", interval, false, false, {}}, {"", "p", false, false, {}},
                   {"", "verdict", true, false, {}}};
  for (const FigureVerdict& figure : pair.figures) {
    const std::string cells[] = {figure_heading(figure),
                                 figure_text(figure.name, figure.base),
                                 figure_text(figure.name, figure.candidate),
                                 change_text(figure.name, figure.change),
                                 interval_text(figure),
                                 p_text(figure),
                                 std::string(to_string(figure.verdict))};
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      table.columns[c].cells.push_back(cells[c]);
    }
    table.instead.emplace_back();
  }
  return render_blocks(table, width);
}

std::string pair_text(const PairVerdict& pair, const GateOptions& options, std::size_t width) {
  std::string text = wrap(printable(fmt::format("{} {} ({})", to_string(pair.verdict),
                                                pair_title(pair), repetitions_text(pair))),
                          width, 4);
  text += figure_rows(pair, options, width);
  for (const FigureVerdict& figure : pair.figures) {
    if (!needs_words(figure, pair)) continue;
    text += wrap(printable(fmt::format("* {}: {}", to_string(figure.verdict),
                                       figure_sentence(figure, options))),
                 width, 4);
  }
  for (const std::string& note : pair.notes) text += wrap(printable("- " + note), width, 4);
  return text + '\n';
}

}  // namespace

std::string render_gate_table(const GateResult& result, int width) {
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  if (!result.refusal.empty()) return wrap(printable(gate_summary(result)), columns, 4);
  std::string text;
  for (const PairVerdict& pair : result.pairs) {
    text += pair_text(pair, result.options, columns);
  }
  if (!result.uncompared.empty()) text += "not compared:\n";
  for (const UncomparedRuns& runs : result.uncompared) {
    text += wrap(printable("- " + uncompared_text(runs)), columns, 4);
  }
  for (const std::string& note : result.notes) {
    text += wrap(printable("note: " + note), columns, 4);
  }
  text += wrap(rule_sentence(result), columns, 4);
  return text + wrap(gate_summary(result), columns, 4);
}

}  // namespace ddpbench::report
