// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/exports/records.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/ranges.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

// A value of RFC 4180 (sections 2.6 and 2.7).
std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

// Lists are joined by spaces, which no number has. A number is the shortest text that reads back as
// the same one.
std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) {
    const auto text = value.get<std::string>();  // a spreadsheet computes what begins so
    return csv_quoted(text.find_first_of("=+-@\t\r") == 0 ? "'" + text : text);
  }
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (!value.is_array()) return value.dump();
  return csv_quoted(joined(value, " ", [](const Json& part) { return part.dump(); }));
}

TextTable table_of(const Records& records) {
  TextTable table;
  for (std::size_t c = 0; c < records.columns.size(); ++c) {
    const RecordColumn& column = records.columns[c];
    if (!column.for_people()) continue;
    table.columns.push_back(
        {column.top, column.bottom, column.left, 0,
         mapped(records.rows, [c](const auto& row) { return row.at(c).text; })});
  }
  return table;
}

std::string table_text(const Records& records, std::size_t width) {
  std::string text = records.caption.empty() ? "" : wrap(records.caption, width, 2) + "\n";
  text += render_rows(table_of(records), width);
  if (!records.notes.empty()) text += "\n";
  for (const std::string& note : records.notes) text += wrap(note, width, 4);
  return text;
}

std::vector<Json> objects_of(const Records& records) {
  std::vector<Json> objects;
  for (const std::vector<RecordCell>& row : records.rows) {
    Json& object = objects.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c) {
      object[records.columns.at(c).key] = row[c].value;
    }
  }
  return objects;
}

std::string json_records(const Records& records) {
  Json document;
  if (!records.caption.empty()) document["caption"] = records.caption;
  document[records.name] = objects_of(records);
  document["notes"] = records.notes;
  return document.dump(2) + "\n";
}

std::string markdown_line(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string markdown_table(const TextTable& table) {
  std::vector<std::string> headings, rulers;
  for (const TextColumn& column : table.columns) {
    headings.push_back(markdown_escaped(heading(column)));
    rulers.emplace_back(column.left ? ":--" : "--:");
  }
  std::string text = markdown_line(headings) + markdown_line(rulers);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    text += markdown_line(mapped(table.row(row), markdown_escaped));
  }
  return text;
}

}  // namespace

std::string csv_lines(const std::vector<std::string>& keys, const std::vector<Json>& objects,
                      bool reasons) {
  std::string text = fmt::format("{}{}\n", fmt::join(keys, ","), reasons ? ",missing" : "");
  for (const Json& object : objects) {
    std::vector<std::string> cells, missing;
    for (const std::string& key : keys) {
      cells.push_back(object.contains(key) ? csv_cell(object[key]) : "");
      const auto reason = object.find(key + kReasonSuffix);
      if (reason != object.end()) {
        missing.push_back(fmt::format("{}: {}", key, reason->get<std::string>()));
      }
    }
    if (reasons) cells.push_back(csv_quoted(joined(missing, "; ")));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

// Escapes the punctuation of markup. A backslash is allowed before any punctuation.
std::string markdown_escaped(const std::string& text) {
  constexpr std::string_view kSpecial = "\\|*_`<>[]&~#@";
  std::string result;
  for (const char c : text) {
    if (kSpecial.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string markdown_page(const std::string& caption, const TextTable& table,
                          const std::vector<std::string>& notes) {
  std::string text = caption.empty() ? "" : markdown_escaped(caption) + "\n\n";
  text += markdown_table(table);
  if (!notes.empty()) text += '\n';
  for (const std::string& note : notes) text += fmt::format("- {}\n", markdown_escaped(note));
  return text;
}

const std::vector<std::string>& record_formats() {
  static const std::vector<std::string> formats = {"table", "markdown", "csv", "json"};
  return formats;
}

std::string render_records(const Records& records, const std::string& format, std::size_t width) {
  if (format == "markdown") return markdown_page(records.caption, table_of(records), records.notes);
  if (format == "json") return json_records(records);
  if (format == "csv") {
    return csv_lines(mapped(records.columns, &RecordColumn::key), objects_of(records),
                     /*reasons=*/false);
  }
  ensure(format == "table", "records as {}", format);
  return table_text(records, width);
}

}  // namespace ddpbench::report
