// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "reports/exports/export_fields.h"

namespace ddpbench::report {
namespace {

nlohmann::ordered_json json_of(const RecordValue& value) {
  return std::visit(
      []<typename T>(const T& held) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<T, std::monostate>) return nullptr;
        if constexpr (!std::is_same_v<T, std::monostate>) return held;
      },
      value);
}

std::string csv_of(const RecordValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "";
  if (const auto* const text = std::get_if<std::string>(&value)) return csv_quoted(*text);
  return json_of(value).dump();
}

TextTable table_of(const Records& records) {
  TextTable table{.keys = 1, .columns = {}, .instead = {}};
  table.instead.resize(records.rows.size());
  for (std::size_t c = 0; c < records.columns.size(); ++c) {
    const RecordColumn& column = records.columns[c];
    if (!column.for_people()) continue;
    table.columns.push_back(
        {.top = column.top, .bottom = column.bottom, .left = column.left, .cells = {}});
    for (const std::vector<RecordCell>& row : records.rows) {
      table.columns.back().cells.push_back(row.at(c).text);
    }
  }
  return table;
}

std::string table_text(const Records& records, std::size_t width) {
  std::string text = records.caption.empty() ? "" : wrap(records.caption, width, 2) + "\n";
  text += render_blocks(table_of(records), width);
  if (!records.notes.empty()) text += "\n";
  for (const std::string& note : records.notes) text += wrap(note, width, 4);
  return text;
}

std::string markdown_records(const Records& records) {
  std::string text;
  if (!records.caption.empty()) text = markdown_escaped(records.caption) + "\n\n";
  text += markdown_table(table_of(records));
  if (!records.notes.empty()) text += "\n";
  for (const std::string& note : records.notes) text += "- " + markdown_escaped(note) + "\n";
  return text;
}

std::string csv_records(const Records& records) {
  std::vector<std::string> cells;
  for (const RecordColumn& column : records.columns) cells.push_back(column.key);
  std::string text = fmt::format("{}\n", fmt::join(cells, ","));
  for (const std::vector<RecordCell>& row : records.rows) {
    cells.clear();
    for (const RecordCell& cell : row) cells.push_back(csv_of(cell.value));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string json_records(const Records& records) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::vector<RecordCell>& row : records.rows) {
    nlohmann::ordered_json object;
    for (std::size_t c = 0; c < row.size(); ++c) {
      object[records.columns.at(c).key] = json_of(row[c].value);
    }
    rows.push_back(std::move(object));
  }
  nlohmann::ordered_json document;
  if (!records.caption.empty()) document["caption"] = records.caption;
  document[records.name] = std::move(rows);
  document["notes"] = records.notes;
  return document.dump(2) + "\n";
}

}  // namespace

const std::vector<std::string>& record_formats() {
  static const std::vector<std::string> formats = {"table", "markdown", "csv", "json"};
  return formats;
}

std::string render_records(const Records& records, const std::string& format, std::size_t width) {
  if (format == "markdown") return markdown_records(records);
  if (format == "csv") return csv_records(records);
  if (format == "json") return json_records(records);
  ensure(format == "table", "records as {}", format);
  return table_text(records, width);
}

}  // namespace ddpbench::report
