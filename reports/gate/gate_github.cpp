// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Annotations: "::error title=T::MESSAGE" (GitHub's documentation of workflow commands). Characters
// that would end a line or a property become %XX, as in actions/toolkit's core.issueCommand.
#include <fmt/format.h>

#include "reports/gate/gate.h"
#include "reports/gate/gate_text.h"

namespace ddpbench::report {
namespace {

std::string escaped(const std::string& text, bool property) {
  std::string result;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    if (special) {
      result += fmt::format("%{:02X}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result;
}

std::string command(const char* name, const std::string& title, const std::string& message) {
  return fmt::format("::{} title={}::{}\n", name, escaped(title, true), escaped(message, false));
}

std::string pair_commands(const PairVerdict& pair, const GateOptions& options) {
  if (pair.verdict == GateVerdict::pass || pair.verdict == GateVerdict::improved) return "";
  std::string message = fmt::format("{} ({})", to_string(pair.verdict), repetitions_text(pair));
  for (const FigureVerdict& figure : pair.figures) {
    if (!needs_words(figure, pair)) continue;
    message += fmt::format("\n{}: {}", to_string(figure.verdict), figure_sentence(figure, options));
  }
  for (const std::string& note : pair.notes) message += '\n' + note;
  return command(pair.verdict == GateVerdict::regressed ? "error" : "warning",
                 "ddpbench " + pair_title(pair), message);
}

}  // namespace

std::string render_gate_github(const GateResult& result) {
  if (!result.refusal.empty()) return command("error", "ddpbench check", gate_summary(result));
  std::string text;
  for (const PairVerdict& pair : result.pairs) text += pair_commands(pair, result.options);
  for (const UncomparedRuns& runs : result.uncompared) {
    text += command("warning", "ddpbench: not compared", uncompared_text(runs));
  }
  for (const std::string& note : result.notes) text += command("warning", "ddpbench check", note);
  return text + command("notice", "ddpbench check", gate_summary(result));
}

}  // namespace ddpbench::report
