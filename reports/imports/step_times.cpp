// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/imports/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr std::string_view kColumns[] = {"repetition", "rank",   "step", "seconds",
                                         "phase",      "memory", "loss"};
constexpr const char* kNeeded[] = {"step", "seconds"};
constexpr int kMostRanks = 100'000;
constexpr int kMostRepetitions = 1'000'000;
constexpr std::size_t kLongestLine = 64 * 1024;

// The cells of one row by their columns; an absent or empty cell has no entry.
using CellTexts = std::map<std::string, std::string, std::less<>>;

// Where a value stands, for messages.
struct Place {
  const std::string& path;
  std::size_t line;

  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(fmt::format("{}: line {}: {}", path, line, message));
  }
};

bool is_column(std::string_view name) {
  return std::ranges::find(kColumns, name) != std::end(kColumns);
}

std::int64_t whole(const CellTexts& cells, const char* column, std::int64_t most,
                   const Place& place) {
  const auto found = cells.find(column);
  if (found == cells.end()) return 0;
  const auto value = number_in<std::int64_t>(found->second);
  if (!value || *value < 0 || *value > most) {
    place.fail(fmt::format("{}: expected a whole number from 0 to {}, got \"{}\"", column, most,
                           message_text(found->second)));
  }
  return *value;
}

// nan and inf are numbers, too.
std::optional<double> real(const CellTexts& cells, const char* column, const Place& place) {
  const auto found = cells.find(column);
  if (found == cells.end()) return std::nullopt;
  const auto value = number_in<double>(found->second);
  if (value) return value;
  place.fail(fmt::format("{}: expected a number, got \"{}\"", column, message_text(found->second)));
}

std::optional<double> not_negative(const CellTexts& cells, const char* column, const Place& place) {
  const std::optional<double> value = real(cells, column, place);
  if (!value || *value >= 0) return value;
  place.fail(fmt::format("{}: expected a number that is not negative, got \"{}\"", column,
                         message_text(cells.find(column)->second)));
}

StepTime row_of(const CellTexts& cells, const Place& place) {
  for (const char* needed : kNeeded) {
    if (!cells.contains(needed)) place.fail(fmt::format("{} is missing", needed));
  }
  StepTime row;
  row.line = place.line;
  row.repetition = static_cast<int>(whole(cells, "repetition", kMostRepetitions, place));
  row.rank = static_cast<int>(whole(cells, "rank", kMostRanks - 1, place));
  row.step = whole(cells, "step", std::numeric_limits<std::int64_t>::max(), place);
  row.seconds = *not_negative(cells, "seconds", place);
  if (const auto phase = cells.find("phase"); phase != cells.end()) row.phase = phase->second;
  if (!std::isfinite(row.seconds)) place.fail("seconds: expected a finite number");
  if (row.phase.empty() && row.seconds == 0) place.fail("seconds: a step cannot take no time");
  row.memory_bytes = not_negative(cells, "memory", place);
  if (row.memory_bytes && !(*row.memory_bytes < 1e18)) place.fail("memory: too many bytes");
  row.loss = real(cells, "loss", place);
  return row;
}

// The records of RFC 4180. Lines may end with CR LF; a quoted cell ends on its line.
class CsvLines {
 public:
  CsvLines(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  // The cells of the next line that is not empty; nothing at the end.
  std::optional<std::vector<std::string>> next() {
    while (at_ < text_.size()) {
      ++line_;
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view record = text_.substr(at_, end - at_);
      at_ = end + 1;
      if (record.ends_with('\r')) record.remove_suffix(1);
      if (record.size() > kLongestLine) place().fail("the line is too long");
      if (!record.empty()) return cells_of(record);
    }
    return std::nullopt;
  }
  Place place() const { return {path_, line_}; }

 private:
  std::vector<std::string> cells_of(std::string_view record) const {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (std::size_t i = 0; i < record.size(); ++i) {
      const char c = record[i];
      if (c == '"' && quoted && i + 1 < record.size() && record[i + 1] == '"') {
        cells.back() += record[++i];
      } else if (c == '"') {
        quoted = !quoted;
      } else if (c == ',' && !quoted) {
        cells.emplace_back();
      } else {
        cells.back() += c;
      }
    }
    if (quoted) place().fail("a quoted cell does not end on its line");
    return cells;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0, line_ = 0;
};

// Columns that every row needs are asked of the header: rows would all lack them.
void check_header(const std::vector<std::string>& columns, const Place& place) {
  for (const char* needed : kNeeded) {
    if (std::ranges::find(columns, needed) != columns.end()) continue;
    const bool other =
        columns.size() == 1 && columns.front().find_first_of(";\t") != std::string::npos;
    place.fail(fmt::format("the header \"{}\" has no column \"{}\"{}",
                           message_text(fmt::format("{}", fmt::join(columns, ","))), needed,
                           other ? "; columns are separated by commas" : ""));
  }
}

StepTimes parse_csv(std::string_view text, const std::string& path) {
  CsvLines lines(text, path);
  const auto header = lines.next();
  if (!header) throw ConfigError(fmt::format("{}: it is empty", path));
  std::vector<std::string> columns;
  StepTimes times;
  for (const std::string& name : *header) {
    columns.emplace_back(trimmed(name));
    if (std::ranges::count(columns, columns.back()) > 1) {
      lines.place().fail(
          fmt::format("two columns are called \"{}\"", message_text(columns.back())));
    }
    if (!is_column(columns.back())) times.not_read.push_back(columns.back());
  }
  check_header(columns, lines.place());
  while (const auto cells = lines.next()) {
    if (cells->size() != columns.size()) {
      lines.place().fail(fmt::format("{} cells below {} columns", cells->size(), columns.size()));
    }
    CellTexts texts;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::string cell(trimmed((*cells)[c]));
      if (is_column(columns[c]) && !cell.empty()) texts.emplace(columns[c], std::move(cell));
    }
    times.rows.push_back(row_of(texts, lines.place()));
  }
  return times;
}

StepTimes parse_json_lines(std::string_view text, const std::string& path) {
  StepTimes times;
  std::size_t at = 0;
  for (std::size_t line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string record(trimmed(text.substr(at, end - at)));
    at = end + 1;
    if (record.empty() || record == "\r") continue;
    const auto object = parse_json(record, fmt::format("{}: line {}", path, line),
                                   {.most_bytes = kLongestLine, .deepest = 16});
    const Place place{path, line};
    if (!object.is_object()) place.fail("expected an object");
    CellTexts texts;
    for (const auto& [key, value] : object.items()) {
      if (!is_column(key)) {
        const bool known = std::ranges::find(times.not_read, key) != times.not_read.end();
        if (!known) times.not_read.push_back(key);
      } else if (!value.is_null()) {
        texts[key] = value.is_string() ? value.get<std::string>() : value.dump();
      }
    }
    times.rows.push_back(row_of(texts, place));
  }
  return times;
}

}  // namespace

StepFormat step_format(const std::string& path) {
  if (path.ends_with(".csv")) return StepFormat::csv;
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return StepFormat::jsonl;
  throw ConfigError(fmt::format("{}: expected a file that ends in .csv, .jsonl or .ndjson", path));
}

StepFormat step_format_of_text(std::string_view text) {
  text = without_byte_order_mark(text);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool object = first != std::string_view::npos && text[first] == '{';
  return object ? StepFormat::jsonl : StepFormat::csv;
}

StepTimes parse_step_times(std::string_view text, StepFormat format, const std::string& path) {
  text = without_byte_order_mark(text);
  StepTimes times =
      format == StepFormat::csv ? parse_csv(text, path) : parse_json_lines(text, path);
  if (times.rows.empty()) throw ConfigError(fmt::format("{}: it has no steps", path));
  return times;
}

}  // namespace ddpbench::report
