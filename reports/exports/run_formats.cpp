// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/run_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "reports/exports/records.h"
#include "reports/json/report_json.h"
#include "reports/table/table.h"
#include "reports/table/table_notes.h"
#include "reports/why/why.h"

namespace ddpbench::report {
namespace {

using RunRows = std::span<const RunRow>;

// ---- runs ----

struct JsonOf {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const auto& value) const { return value; }
};

std::vector<Json> flat_runs(RunRows rows, const Columns& columns) {
  std::vector<Json> runs;
  for (const RunRow& row : rows) {
    Json& object = runs.emplace_back(Json::object());
    for (const Column* column : columns) {
      for (const Field& field : column->fields) {
        const FieldValue value = field.value(row);
        object[field.key] = std::visit(JsonOf{}, value.value);
        if (value.value.index() == 0) object[field.key + kReasonSuffix] = value.reason;
      }
    }
  }
  return runs;
}

// The verdicts of the reports of these rows, each report once. Lines of a report's text that are
// indented list the parts of a step.
std::vector<std::string> verdicts(RunRows rows) {
  std::vector<std::string> lines;
  std::set<const Report*> told;
  for (const RunRow& row : rows) {
    if (!told.insert(row.report).second) continue;
    for (const std::string& line : split(render_why(*row.report, 0), '\n')) {
      if (line.empty() || line.starts_with(' ')) continue;
      lines.push_back(from_several_files(rows) ? row.file + ": " + line : line);
    }
  }
  return lines;
}

std::vector<RunFormat> make_formats() {
  return {{"table", "for people", true, false,
           [](RunRows rows, const Columns& columns, int width) {
             return table_text(rows, columns, width);
           }},
          {"markdown", "GitHub's tables", true, false,
           [](RunRows rows, const Columns& columns, int) { return markdown_text(rows, columns); }},
          {"csv", "spreadsheets, RFC 4180", true, true,
           [](RunRows rows, const Columns& columns, int) { return csv_text(rows, columns); }},
          {"json", "an array of flat objects", true, true,
           [](RunRows rows, const Columns& columns, int) { return json_runs_text(rows, columns); }},
          {"github-benchmark", "github-action-benchmark, customSmallerIsBetter", false, true,
           [](RunRows rows, const Columns&, int) {
             return github_benchmark_text(rows, Better::smaller);
           }},
          {"github-benchmark-bigger", "the same, customBiggerIsBetter", false, true,
           [](RunRows rows, const Columns&, int) {
             return github_benchmark_text(rows, Better::bigger);
           }},
          {"bencher", "Bencher's metric format", false, true,
           [](RunRows rows, const Columns&, int) { return bencher_text(rows); }},
          {"prometheus", "Prometheus' textfile collector", false, true,
           [](RunRows rows, const Columns&, int) { return prometheus_text(rows); }},
          {"mllog", "MLPerf's :::MLLOG lines", false, true,
           [](RunRows rows, const Columns&, int) { return mllog_text(rows); }}};
}

// ---- the rows of `ddpbench comm` ----

// The keys are those of a report's "collectives"; keys within an object are joined to its name
// ("time_s_median").
void flatten(const Json& value, const std::string& prefix, Json& flat) {
  for (const auto& [key, part] : value.items()) {
    if (part.is_object()) {
      flatten(part, prefix + key + "_", flat);
    } else {
      flat[prefix + key] = part;
    }
  }
}

// The rows of all reports as flat objects, with the file's name where there are several.
std::vector<Json> flat_rows(std::span<const ReportFile> files) {
  std::vector<Json> rows;
  for (const ReportFile& file : files) {
    const Json report = to_json(file.report);
    for (const Json& row : report.value("collectives", Json::array())) {
      Json flat = Json::object();
      if (files.size() > 1) flat["report"] = file.name;
      flatten(row, "", flat);
      rows.push_back(std::move(flat));
    }
  }
  return rows;
}

// The keys of all rows in the order of their first appearance, without those of reasons.
std::vector<std::string> keys_of(const std::vector<Json>& rows) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (!key.ends_with(kReasonSuffix) && known.insert(key).second) keys.push_back(key);
    }
  }
  return keys;
}

std::string collectives_csv(std::span<const ReportFile> files, int) {
  const std::vector<Json> rows = flat_rows(files);
  return csv_lines(keys_of(rows), rows, /*reasons=*/true);
}

std::string collectives_json(std::span<const ReportFile> files, int) {
  return json_text(Json(flat_rows(files)));
}

std::string collectives_markdown(std::span<const ReportFile> files, int) {
  std::string text;
  for (const ReportFile& file : files) {
    const CollectiveTables tables = collective_tables(file.report);
    text += text.empty() ? "" : "\n";
    text += markdown_page(tables.caption, tables.collectives, tables.notes);
  }
  return text;
}

std::string collectives_table(std::span<const ReportFile> files, int width) {
  std::string text;
  for (const ReportFile& file : files) {
    text += (text.empty() ? "" : "\n") + render_collectives(file.report, width);
  }
  return text;
}

}  // namespace

std::string csv_text(RunRows rows, const Columns& columns) {
  std::vector<std::string> keys;
  for (const Column* column : columns) {
    for (const Field& field : column->fields) keys.push_back(field.key);
  }
  return csv_lines(keys, flat_runs(rows, columns), /*reasons=*/true);
}

std::string json_runs_text(RunRows rows, const Columns& columns) {
  return json_text(Json(flat_runs(rows, columns)));
}

std::string markdown_text(RunRows rows, const Columns& columns) {
  if (rows.empty()) return "no runs\n";
  Footnotes notes;
  const TextTable table = run_table(rows, columns, notes);
  std::vector<std::string> below = explanations(rows, columns, notes);
  std::ranges::move(remarks(rows), std::back_inserter(below));
  std::ranges::move(verdicts(rows), std::back_inserter(below));
  return markdown_page(caption(rows), table, below);
}

const std::vector<RunFormat>& run_formats() {
  static const std::vector<RunFormat> formats = make_formats();
  return formats;
}

const std::vector<CollectiveFormat>& collective_formats() {
  static const std::vector<CollectiveFormat> kFormats = {{"table", collectives_table},
                                                         {"markdown", collectives_markdown},
                                                         {"csv", collectives_csv},
                                                         {"json", collectives_json}};
  return kFormats;
}

}  // namespace ddpbench::report
