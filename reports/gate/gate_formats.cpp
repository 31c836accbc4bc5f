// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gate's result as text: for a terminal, a pull request's comment, annotations of GitHub, CI
// servers, and programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_text.h"
#include "reports/json/json_text.h"
#include "reports/pictures/markup.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {
namespace {

std::string figure_rows(const PairVerdict& pair, const GateOptions& options, std::size_t width) {
  if (pair.figures.empty()) return "";
  TextTable table;
  table.keys = 1;
  for (const GateColumn& column : gate_columns()) {
    const std::string heading = *column.heading ? column.heading : interval_heading(options);
    table.columns.push_back({"", heading, column.left, false, {}});
    for (const FigureVerdict& figure : pair.figures) {
      table.columns.back().cells.push_back(column.cell(figure));
    }
  }
  table.instead.resize(pair.figures.size());
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

// Markdown: one row for each pair, all figures folded away.

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

std::string details(const PairVerdict& pair, const GateOptions& options) {
  std::string heads = "|", rules = "|", rows;
  for (const GateColumn& column : gate_columns()) {
    heads += fmt::format(" {} |", *column.heading ? column.heading : interval_heading(options));
    rules += column.left ? "---|" : "--:|";
  }
  for (const FigureVerdict& figure : pair.figures) {
    for (const GateColumn& column : gate_columns()) {
      rows += fmt::format("| {} ", plain(column.cell(figure)));
    }
    rows += fmt::format("{} |\n", sign(figure.verdict));
  }
  return fmt::format("\n**{}**\n\n{}\n{}\n{}", plain(pair_title(pair)), heads, rules, rows);
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

// Annotations: "::error title=T::MESSAGE" (GitHub's documentation of workflow commands). Characters
// that would end a line or a property become %XX, as in actions/toolkit's core.issueCommand.

std::string command_text(const std::string& text, bool property) {
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
  return fmt::format("::{} title={}::{}\n", name, command_text(title, true),
                     command_text(message, false));
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

// JUnit XML as CI servers read it: a testsuite for each pair, with a testcase for each figure. One
// more testcase stands for the pair as a whole, with what no figure shows (a run that failed).

// printable() removes control characters, which XML 1.0 cannot express.
std::string xml(const std::string& text) { return pictures::escaped(printable(text)); }

std::string outcome(GateVerdict verdict, const std::string& message) {
  if (verdict == GateVerdict::pass || verdict == GateVerdict::improved) {
    return fmt::format("<system-out>{}</system-out>", xml(message));
  }
  const char* element = verdict == GateVerdict::regressed ? "failure" : "error";
  return fmt::format("<{} type=\"{}\" message=\"{}\"/>", element, to_string(verdict), xml(message));
}

// `seconds`: the time of the runs for the case of the runs; a figure takes none of its own.
std::string testcase(const std::string& suite, const std::string& name, const std::string& content,
                     double seconds = 0) {
  return fmt::format(
      "    <testcase classname=\"ddpbench.{}\" name=\"{}\" time=\"{:.3f}\">{}</testcase>\n",
      xml(suite), xml(name), seconds, content);
}

struct Counts {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
  void add(GateVerdict verdict) {
    ++tests;
    failures += verdict == GateVerdict::regressed ? 1 : 0;
    errors += verdict == GateVerdict::inconclusive ? 1 : 0;
  }
  void add(const Counts& other) {
    tests += other.tests;
    failures += other.failures;
    errors += other.errors;
    skipped += other.skipped;
    seconds += other.seconds;
  }
  std::string attributes() const {
    return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"",
                       tests, failures, errors, skipped, seconds);
  }
};

// A testsuite of these cases. The schemas of JUnit want a time of day without a zone; it is UTC.
std::string testsuite(const std::string& name, const Counts& counts, const GateOrigin& origin,
                      const std::string& cases) {
  std::string_view time = origin.started_at;
  if (time.ends_with('Z')) time.remove_suffix(1);
  const std::string timestamp =
      time.empty() ? "" : fmt::format(" timestamp=\"{}\"", xml(std::string(time)));
  return fmt::format("  <testsuite name=\"{}\" {}{} hostname=\"{}\">\n{}  </testsuite>\n",
                     xml(name), counts.attributes(), timestamp,
                     xml(fmt::format("{}", fmt::join(origin.hosts, "+"))), cases);
}

// A figure that is too noisy is no error unless its pair is INCONCLUSIVE.
GateVerdict shown(const FigureVerdict& figure, const PairVerdict& pair) {
  return std::min(figure.verdict, pair.verdict);
}

std::string pair_suite(const PairVerdict& pair, const GateResult& result, Counts& all) {
  const std::string title = pair_title(pair);
  Counts counts;
  counts.seconds = pair.candidate_s;
  std::string message = repetitions_text(pair);
  for (const std::string& note : pair.notes) message += "; " + note;
  GateVerdict rest = pair.verdict;  // what no figure shows
  std::string cases;
  for (const FigureVerdict& figure : pair.figures) {
    const GateVerdict verdict = shown(figure, pair);
    if (verdict >= pair.verdict) rest = GateVerdict::pass;
    counts.add(verdict);
    cases += testcase(title, figure_heading(figure),
                      outcome(verdict, figure_sentence(figure, result.options)));
  }
  counts.add(rest);
  cases = testcase(title, "runs", outcome(rest, message), pair.candidate_s) + cases;
  all.add(counts);
  return testsuite(title, counts, result.origin, cases);
}

std::string refusal_suite(const GateResult& result, Counts& all) {
  Counts counts;
  counts.tests = counts.errors = 1;
  all.add(counts);
  return testsuite(
      "check", counts, result.origin,
      testcase("check", "comparison",
               fmt::format("<error type=\"NOT_COMPARED\" message=\"{}\"/>", xml(result.refusal))));
}

std::string uncompared_suite(const GateResult& result, Counts& all) {
  if (result.uncompared.empty()) return "";
  Counts counts;
  std::string cases;
  for (const UncomparedRuns& runs : result.uncompared) {
    ++counts.tests;
    ++counts.skipped;
    cases += testcase("not compared", to_string(runs.key, runs.setting),
                      fmt::format("<skipped message=\"{}\"/>", xml(uncompared_text(runs))));
  }
  all.add(counts);
  return testsuite("not compared", counts, result.origin, cases);
}

// JSON as schema/check-1.schema.json describes it.

constexpr int kCheckSchemaVersion = 1;
constexpr std::string_view kRefused = "NOT_COMPARED";

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json options_json(const GateOptions& options) {
  return {{"alpha", options.alpha},
          {"max_slowdown", options.max_slowdown},
          {"max_p95_slowdown", options.max_tail_slowdown},
          {"max_memory_growth", options.max_memory_growth},
          {"max_loss_increase", options.max_loss_increase},
          {"max_accuracy_drop", options.max_accuracy_drop},
          {"allow_mismatch", options.allow_mismatch}};
}

Json key_json(const PairKey& key, const std::string& setting) {
  return {{"kind", key.collective ? "collective" : "run"},
          {"strategy", key.strategy},
          {"world_size", key.world_size},
          {"servers", key.servers},
          {"bytes", key.collective ? Json(key.bytes) : Json(nullptr)},
          {"backend", text_or_null(key.backend)},
          {"setting", text_or_null(setting)}};
}

// A figure's value; a number of bytes is whole.
Json value_json(const FigureVerdict& figure, const std::optional<double>& value) {
  if (value && figure.name.ends_with("_bytes")) return std::llround(*value);
  return or_null(value);
}

Json figure_json(const FigureVerdict& figure) {
  return {{"figure", figure.name},
          {"verdict", to_string(figure.verdict)},
          {"baseline", value_json(figure, figure.base)},
          {"new", value_json(figure, figure.candidate)},
          {"baseline_as_measured", value_json(figure, figure.base_measured)},
          {"new_as_measured", value_json(figure, figure.candidate_measured)},
          {"minimum_effect", figure.minimum_effect},
          {"change", or_null(figure.change)},
          {"change_low", or_null(figure.change_low)},
          {"change_high", or_null(figure.change_high)},
          {"p_worse", or_null(figure.p_worse)},
          {"p_better", or_null(figure.p_better)},
          {"noise", or_null(figure.noise)},
          {"outliers", figure.outliers},
          {"repetitions_needed", or_null(figure.repetitions_needed)},
          {"note", text_or_null(figure.note)}};
}

Json pair_json(const PairVerdict& pair) {
  Json json = key_json(pair.key, pair.setting);
  json["verdict"] = to_string(pair.verdict);
  json["baseline_repetitions"] = pair.base_repetitions;
  json["new_repetitions"] = pair.candidate_repetitions;
  json["baseline_injected"] = text_or_null(pair.base_injected);
  json["new_injected"] = text_or_null(pair.candidate_injected);
  json["figures"] = Json::array();
  for (const FigureVerdict& figure : pair.figures) json["figures"].push_back(figure_json(figure));
  json["notes"] = pair.notes;
  return json;
}

Json uncompared_json(const UncomparedRuns& runs) {
  Json json = key_json(runs.key, runs.setting);
  json["side"] = runs.candidate ? "new" : "baseline";
  json["runs"] = runs.repetitions;
  json["reason"] = runs.reason;
  return json;
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

std::string render_gate_markdown(const GateResult& result) {
  if (!result.refusal.empty()) {
    return fmt::format("### ❗ ddpbench check\n\n{}\n", plain(gate_summary(result)));
  }
  std::string text =
      fmt::format("### {} ddpbench check\n\n{}\n\n", sign(result.verdict), gate_summary(result));
  text += fmt::format(
      "| pair | baseline | new | change of the median | {} | repetitions | verdict |\n"
      "|---|--:|--:|--:|--:|--:|---|\n",
      interval_heading(result.options));
  for (const PairVerdict& pair : result.pairs) text += pair_row(pair);
  const std::string lines = findings(result);
  if (!lines.empty()) text += '\n' + lines;
  text += "\n<details><summary>All figures</summary>\n";
  for (const PairVerdict& pair : result.pairs) text += details(pair, result.options);
  return text + fmt::format("\n{}\n\n</details>\n", plain(rule_sentence(result)));
}

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

std::string render_gate_junit(const GateResult& result) {
  Counts all;
  std::string suites;
  for (const PairVerdict& pair : result.pairs) suites += pair_suite(pair, result, all);
  suites += uncompared_suite(result, all);
  if (!result.refusal.empty()) suites += refusal_suite(result, all);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"ddpbench check\" "
      "{}>\n{}</testsuites>\n",
      all.attributes(), suites);
}

nlohmann::ordered_json gate_json(const GateResult& result) {
  Json json = {{"check_schema_version", kCheckSchemaVersion},
               {"verdict", result.refusal.empty() ? to_string(result.verdict) : kRefused},
               {"error", text_or_null(result.refusal)},
               {"options", options_json(result.options)},
               {"tests", result.tests}};
  json["pairs"] = Json::array();
  for (const PairVerdict& pair : result.pairs) json["pairs"].push_back(pair_json(pair));
  json["not_compared"] = Json::array();
  for (const UncomparedRuns& runs : result.uncompared) {
    json["not_compared"].push_back(uncompared_json(runs));
  }
  json["notes"] = result.notes;
  return json;
}

std::string render_gate_json(const GateResult& result) { return json_text(gate_json(result)); }

}  // namespace ddpbench::report
