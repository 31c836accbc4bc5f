// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/run_formats.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "reports/exports/records.h"
#include "reports/json/report_json.h"
#include "reports/metrics/noise.h"
#include "reports/table/table.h"
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
  std::vector<RunRow> judged(rows.begin(), rows.end());
  mark_doubts(judged);
  for (const RunRow& row : judged) {
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

// The verdicts and conclusions of the reports of these rows, each report once. Lines of a report's
// text that are indented list the parts of a step.
std::vector<std::string> verdicts(RunRows rows) {
  std::vector<std::string> lines;
  std::set<const Report*> told;
  for (const RunRow& row : rows) {
    if (!told.insert(row.report).second) continue;
    for (const std::string& line : split(
             row.report->tune ? row.report->tune->conclusion : render_why(*row.report, 0), '\n')) {
      if (line.empty() || line.starts_with(' ')) continue;
      lines.push_back(from_several_files(rows) ? row.file + ": " + line : line);
    }
  }
  return lines;
}

std::string csv_text(RunRows rows, const Columns& columns, int) {
  const auto fields = columns | std::views::transform(&Column::fields) | std::views::join;
  return csv_lines(mapped(fields, &Field::key), flat_runs(rows, columns), /*reasons=*/true);
}

std::string json_text_of_runs(RunRows rows, const Columns& columns, int) {
  return json_text(Json(flat_runs(rows, columns)));
}

std::string markdown_text(RunRows rows, const Columns& columns, int) {
  if (rows.empty()) return "no runs\n";
  std::vector<std::string> below;
  const TextTable table = run_table(rows, columns, below);
  const auto intervals = std::ranges::count(table.columns, "(a..b)", &TextColumn::bottom);
  const std::string words = last_words(rows, intervals > 0);
  if (!words.empty()) below.push_back(words);
  std::ranges::move(verdicts(rows), std::back_inserter(below));
  return markdown_page(caption(rows), table, below);
}

template <Trait kBetter>
std::string github_text(RunRows rows, const Columns&, int) {
  return github_benchmark_text(rows, kBetter);
}

std::string history_text(RunRows rows, const Columns&, int width) {
  return render_history(history_of(rows), width);
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

// The texts of all reports, with an empty line between them.
std::string text_of_each(std::span<const ReportFile> files, auto text_of) {
  return joined(files, "\n", [&](const ReportFile& file) { return text_of(file.report); });
}

std::string collectives_markdown(std::span<const ReportFile> files, int) {
  return text_of_each(files, [](const Report& report) {
    const CollectiveTables tables = collective_tables(report);
    return markdown_page(tables.caption, tables.collectives, tables.notes);
  });
}

std::string collectives_table(std::span<const ReportFile> files, int width) {
  return text_of_each(files,
                      [width](const Report& report) { return render_collectives(report, width); });
}

}  // namespace

const std::vector<RunFormat>& run_formats() {
  static const std::vector<RunFormat> kFormats = {
      {"table", true, false, table_text, collectives_table},
      {"markdown", true, false, markdown_text, collectives_markdown},
      {"csv", true, true, csv_text, collectives_csv},
      {"json", true, true, json_text_of_runs, collectives_json},
      {"history", false, true, history_text},
      {"github-benchmark", false, true, github_text<kSmaller>},
      {"github-benchmark-bigger", false, true, github_text<kBigger>}};
  return kFormats;
}

}  // namespace ddpbench::report
