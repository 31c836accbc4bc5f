// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gate's result as text: for a terminal, a pull request's comment, annotations of GitHub, CI
// servers, and programs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>

#include "base/ranges.h"
#include "base/text.h"
#include "reports/exports/records.h"
#include "reports/gate/gate.h"
#include "reports/gate/gate_parts.h"
#include "reports/json/fields.h"
#include "reports/pictures/markup.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {
namespace {

bool is_good(GateVerdict verdict) { return verdict <= GateVerdict::improved; }

const char* sign(GateVerdict verdict) {
  constexpr const char* kSigns[] = {"✅", "🚀", "❔", "❌"};
  return kSigns[static_cast<std::size_t>(verdict)];
}

// A row for each pair, with the figure that decides most often.
TextTable pairs_table(const GateResult& result) {
  TextTable table{{{"", "pair", true},
                   {"", "baseline"},
                   {"", "new"},
                   {"", "change (mean of repetitions)"},
                   {"", interval_heading(result.options)},
                   {"", "repetitions"},
                   {"", "verdict", true}}};
  for (const PairVerdict& pair : result.pairs) {
    const auto found =
        std::ranges::find(pair.figures, pair.key.collective ? "median_time_s" : "median_step_s",
                          &FigureVerdict::name);
    const FigureVerdict step = found == pair.figures.end() ? FigureVerdict{} : *found;
    table.add_row({printable(pair_title(pair)), figure_text(step.name, step.base),
                   figure_text(step.name, step.candidate), change_text(step.name, step.change),
                   interval_text(step),
                   fmt::format("{} / {}", pair.candidate_repetitions, pair.base_repetitions),
                   fmt::format("{} {}", sign(pair.verdict), to_string(pair.verdict))});
  }
  return table;
}

// Annotations: "::error title=T::MESSAGE" (GitHub's documentation of workflow commands). Characters
// that would end a line or a property become %XX, as in actions/toolkit's core.issueCommand.

std::string command_text(const std::string& text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    const bool plain = special.find(c) == std::string_view::npos;
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned>(c));
  }
  return result;
}

std::string command(const char* name, const std::string& title, const std::string& message) {
  return fmt::format("::{} title={}::{}\n", name, command_text(title, "%\r\n:,"),
                     command_text(message, "%\r\n"));
}

// JUnit XML as CI servers read it: a test case for each pair.

// printable() removes control characters, which XML 1.0 cannot express.
std::string xml(const std::string& text) { return pictures::escaped(printable(text)); }

// `element`: "system-out" (it passed), "failure", "error", "skipped".
struct TestCase {
  std::string name, element, type, message;
  double seconds = 0;  // of the runs
};

std::vector<TestCase> cases_of(const GateResult& result) {
  if (!result.refusal.empty()) return {{"comparison", "error", "NOT_COMPARED", result.refusal}};
  std::vector<TestCase> cases;
  for (const PairVerdict& pair : result.pairs) {
    const char* element = is_good(pair.verdict)                    ? "system-out"
                          : pair.verdict == GateVerdict::regressed ? "failure"
                                                                   : "error";
    cases.push_back(
        {pair_title(pair), element, std::string(to_string(pair.verdict)),
         fmt::format("{}: {}", repetitions_text(pair), fmt::join(pair_lines(pair), "; ")),
         pair.candidate_s});
  }
  for (const UncomparedRuns& runs : result.uncompared)
    cases.push_back({to_string(runs.key, runs.setting), "skipped", "", uncompared_text(runs)});
  return cases;
}

std::string case_text(const TestCase& one) {
  const std::string type = one.type.empty() ? "" : fmt::format(" type=\"{}\"", one.type);
  const std::string content =
      one.element == "system-out"
          ? fmt::format("<system-out>{}</system-out>", xml(one.message))
          : fmt::format("<{}{} message=\"{}\"/>", one.element, type, xml(one.message));
  return fmt::format(
      "    <testcase classname=\"ddpbench\" name=\"{}\" time=\"{:.3f}\">{}</testcase>\n",
      xml(one.name), one.seconds, content);
}

// JSON as schema/check-1.schema.json describes it.

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

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
          {"backend", or_null(key.backend)},
          {"setting", or_null(setting)}};
}

Json figure_json(const FigureVerdict& figure) {
  const auto value = [&figure](const std::optional<double>& number) {
    const bool whole = number && figure.name.ends_with("_bytes");
    return whole ? Json(std::llround(*number)) : or_null(number);
  };
  Json json = {{"figure", figure.name},
               {"verdict", to_string(figure.verdict)},
               {"baseline", value(figure.base)},
               {"new", value(figure.candidate)},
               {"baseline_as_measured", value(figure.base_measured)},
               {"new_as_measured", value(figure.candidate_measured)},
               {"minimum_effect", figure.minimum_effect}};
  const auto put = [&json](const char* key, const auto& member) { json[key] = or_null(member); };
  DDPBENCH_EACH(figure, put, change, change_low, change_high, p_worse, p_better, noise);
  json["outliers"] = figure.outliers;
  DDPBENCH_EACH(figure, put, repetitions_needed, note);
  return json;
}

Json pair_json(const PairVerdict& pair) {
  Json json = key_json(pair.key, pair.setting);
  json["verdict"] = to_string(pair.verdict);
  json["baseline_repetitions"] = pair.base_repetitions;
  json["new_repetitions"] = pair.candidate_repetitions;
  json["baseline_injected"] = or_null(pair.base_injected);
  json["new_injected"] = or_null(pair.candidate_injected);
  json["figures"] = Json::array();
  for (const FigureVerdict& figure : pair.figures) json["figures"].push_back(figure_json(figure));
  json["notes"] = pair.notes;
  return json;
}

}  // namespace

std::string render_gate_table(const GateResult& result, int width) {
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  std::string text;
  const auto add = [&](const std::string& line) { text += wrap(printable(line), columns, 4); };
  std::set<std::string> backends;
  for (const PairVerdict& pair : result.pairs)
    if (pair.key.world_size > 1) backends.insert(pair.key.backend);
  for (PairVerdict pair : result.pairs) {
    if (backends.size() == 1) pair.key.backend.clear();  // it tells none from another
    const std::vector<std::string> lines = pair_lines(pair);
    add(fmt::format("{} {}: {}", to_string(pair.verdict), pair_title(pair), lines[0]));
    std::string below =
        fmt::format("{} against {}", pair.candidate_repetitions, pair.base_repetitions);
    for (const std::string& line : lines | std::views::drop(1)) below += "; " + line;
    text += "    " + wrap(printable(below), columns > 4 ? columns - 4 : columns, 4);
  }
  for (const std::string& line : remarks(result)) add("- " + line);
  add(gate_summary(result) +
      (result.refusal.empty() ? "; changes are of means over repetitions" : ""));
  return text;
}

std::string render_gate_markdown(const GateResult& result) {
  if (!result.refusal.empty()) {
    return fmt::format("### ❗ ddpbench check\n\n{}\n",
                       markdown_escaped(printable(gate_summary(result))));
  }
  std::vector<std::string> below;
  std::string details;
  for (const PairVerdict& pair : result.pairs) {
    const std::string title = printable(pair_title(pair));
    const auto lines = pair.verdict == GateVerdict::pass ? pair.notes : pair_lines(pair);
    if (!lines.empty()) {
      below.push_back(printable(fmt::format("{}: {}", title, fmt::join(lines, "; "))));
    }
    details += fmt::format("\n**{}**\n\n{}", markdown_escaped(title),
                           markdown_page("", figures_table(pair, result.options), {}));
  }
  for (const std::string& line : remarks(result)) below.push_back(printable(line));
  return fmt::format(
      "### {} ddpbench check\n\n{}\n\n{}\n<details><summary>All "
      "figures</summary>\n{}\n</details>\n",
      sign(result.verdict), gate_summary(result), markdown_page("", pairs_table(result), below),
      details);
}

std::string render_gate_github(const GateResult& result) {
  constexpr const char* kTitle = "ddpbench check";
  if (!result.refusal.empty()) return command("error", kTitle, gate_summary(result));
  std::string text;
  for (const PairVerdict& pair : result.pairs) {
    if (is_good(pair.verdict)) continue;
    text += command(pair.verdict == GateVerdict::regressed ? "error" : "warning",
                    "ddpbench " + pair_title(pair),
                    fmt::format("{} ({})\n{}", to_string(pair.verdict), repetitions_text(pair),
                                fmt::join(pair_lines(pair), "\n")));
  }
  for (const std::string& line : remarks(result)) text += command("warning", kTitle, line);
  return text + command("notice", kTitle, gate_summary(result));
}

std::string render_gate_junit(const GateResult& result) {
  const std::vector<TestCase> cases = cases_of(result);
  const auto count = [&cases](const char* element) {
    return std::ranges::count(cases, element, &TestCase::element);
  };
  double seconds = 0;
  std::string text;
  for (const TestCase& one : cases) {
    seconds += one.seconds;
    text += case_text(one);
  }
  // The schemas of JUnit want a time of day without a zone; it is UTC.
  std::string time = result.origin.started_at;
  if (time.ends_with('Z')) time.pop_back();
  if (!time.empty()) time = fmt::format(" timestamp=\"{}\"", xml(time));
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"ddpbench "
      "check\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"{} "
      "hostname=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
      cases.size(), count("failure"), count("error"), count("skipped"), seconds, time,
      xml(joined(result.origin.hosts, "+")), text);
}

std::string render_gate_json(const GateResult& result) {
  Json json = {{"check_schema_version", 1},
               {"verdict", result.refusal.empty() ? to_string(result.verdict) : "NOT_COMPARED"},
               {"error", or_null(result.refusal)},
               {"options", options_json(result.options)},
               {"tests", result.tests},
               {"pairs", Json::array()},
               {"not_compared", Json::array()},
               {"notes", result.notes}};
  for (const PairVerdict& pair : result.pairs) json["pairs"].push_back(pair_json(pair));
  for (const UncomparedRuns& runs : result.uncompared) {
    Json& row = json["not_compared"].emplace_back(key_json(runs.key, runs.setting));
    row["side"] = runs.candidate ? "new" : "baseline";
    row["runs"] = runs.repetitions;
    row["reason"] = runs.reason;
  }
  return json_text(json);
}

}  // namespace ddpbench::report
