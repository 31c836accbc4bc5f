// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "reports/exports/export_fields.h"
#include "reports/exports/run_formats.h"

namespace ddpbench::report {

std::string csv_quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

namespace {

struct CellText {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  // The shortest text that reads back as the same number.
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return csv_quoted(value); }
};

std::string line_of(const std::vector<std::string>& cells) {
  return fmt::format("{}\n", fmt::join(cells, ","));
}

std::string run_line(const RunRow& row, const Columns& columns) {
  std::vector<std::string> cells, reasons;
  for (const Column* column : columns) {
    for (const Field& field : column->fields) {
      const FieldValue value = field.value(row);
      cells.push_back(std::visit(CellText{}, value.value));
      if (value.value.index() == 0) reasons.push_back(field.key + ": " + value.reason);
    }
  }
  cells.push_back(csv_quoted(fmt::format("{}", fmt::join(reasons, "; "))));
  return line_of(cells);
}

}  // namespace

std::string csv_text(std::span<const RunRow> rows, const Columns& columns) {
  std::vector<std::string> keys;
  for (const Column* column : columns) {
    for (const Field& field : column->fields) keys.push_back(field.key);
  }
  keys.emplace_back("missing");
  std::string text = line_of(keys);
  for (const RunRow& row : rows) text += run_line(row, columns);
  return text;
}

}  // namespace ddpbench::report
