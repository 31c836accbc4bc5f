// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of `ddpbench comm` for programs. Their keys are those of a report's "collectives"; keys
// within an object are joined to its name ("time_s_median").
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "reports/exports/export_fields.h"
#include "reports/exports/run_formats.h"
#include "reports/json/json_text.h"
#include "reports/json/report_json.h"
#include "reports/table/collective_table.h"

namespace ddpbench::report {
namespace {

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

// Lists are joined by spaces, which no number has.
std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_quoted(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(part.dump());
  return csv_quoted(fmt::format("{}", fmt::join(parts, " ")));
}

// The keys of all rows in the order of their first appearance, without those of reasons.
std::vector<std::string> columns_of(const std::vector<Json>& rows) {
  std::vector<std::string> columns;
  std::set<std::string> known;
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (!key.ends_with(kReasonSuffix) && known.insert(key).second) columns.push_back(key);
    }
  }
  return columns;
}

std::string csv_line(const Json& row, const std::vector<std::string>& columns) {
  std::vector<std::string> cells, reasons;
  for (const std::string& column : columns) {
    cells.push_back(row.contains(column) ? csv_cell(row[column]) : "");
    const auto reason = row.find(column + kReasonSuffix);
    if (reason != row.end() && reason->is_string()) {
      reasons.push_back(fmt::format("{}: {}", column, reason->get<std::string>()));
    }
  }
  cells.push_back(csv_quoted(fmt::format("{}", fmt::join(reasons, "; "))));
  return fmt::format("{}\n", fmt::join(cells, ","));
}

std::string collectives_csv(std::span<const ReportFile> files, int) {
  const std::vector<Json> rows = flat_rows(files);
  const std::vector<std::string> columns = columns_of(rows);
  std::string text = fmt::format("{},missing\n", fmt::join(columns, ","));
  for (const Json& row : rows) text += csv_line(row, columns);
  return text;
}

std::string collectives_json(std::span<const ReportFile> files, int) {
  return json_text(Json(flat_rows(files)));
}

std::string collectives_markdown(std::span<const ReportFile> files, int) {
  std::string text;
  for (const ReportFile& file : files) {
    const CollectiveTables tables = collective_tables(file.report);
    text += fmt::format("{}{}\n\n{}", text.empty() ? "" : "\n", markdown_escaped(tables.caption),
                        markdown_table(tables.collectives));
    if (!tables.notes.empty()) text += '\n';
    for (const std::string& note : tables.notes) {
      text += fmt::format("- {}\n", markdown_escaped(note));
    }
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

const std::vector<CollectiveFormat>& collective_formats() {
  static const std::vector<CollectiveFormat> kFormats = {{"table", collectives_table},
                                                         {"markdown", collectives_markdown},
                                                         {"csv", collectives_csv},
                                                         {"json", collectives_json}};
  return kFormats;
}

}  // namespace ddpbench::report
