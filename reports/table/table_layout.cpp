// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/ranges.h"
#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kColumnGap = 2;  // spaces between columns

std::size_t width_of(const TextColumn& column) {
  std::size_t width = std::max(display_width(column.top), display_width(column.bottom));
  for (const std::string& cell : column.cells) width = std::max(width, display_width(cell));
  return width;
}

std::size_t width_of(const TextTable& table) {
  std::size_t width = 0;
  for (const TextColumn& column : table.columns) width += width_of(column) + kColumnGap;
  return width > 0 ? width - kColumnGap : 0;
}

// What `text_of` says of each column, in columns of these widths.
template <typename TextOf>
std::string line_of(const TextTable& table, const std::vector<std::size_t>& widths,
                    TextOf text_of) {
  std::string line;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::string& text = std::invoke(text_of, table.columns[c]);
    const std::string fill(widths[c] - display_width(text), ' ');
    if (c > 0) line.append(kColumnGap, ' ');
    line += table.columns[c].left ? text + fill : fill + text;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// Shortens the names in the widest column of words by so much, as far as they stay readable.
void shorten_names(TextTable& table, std::size_t excess) {
  constexpr std::size_t kLeast = 12;
  TextColumn* widest = nullptr;
  for (TextColumn& column : table.columns)
    if (column.left && (widest == nullptr || width_of(column) > width_of(*widest)))
      widest = &column;
  if (widest == nullptr) return;
  const std::size_t width = width_of(*widest);
  const std::size_t room = std::max(kLeast, width - std::min(width, excess));
  for (std::string& cell : widest->cells) {
    cell = elided(cell, static_cast<double>(room),
                  [](std::string_view text) { return static_cast<double>(display_width(text)); });
  }
}

// Removes the column that goes first; false when all that are left stay.
bool drop_one(TextTable& table) {
  const auto first = std::ranges::max_element(table.columns, {}, &TextColumn::drop);
  if (first == table.columns.end() || first->drop == 0) return false;
  table.columns.erase(first);
  return true;
}

}  // namespace

void TextTable::add_row(std::vector<std::string> cells) {
  for (std::size_t c = 0; c < cells.size(); ++c) columns.at(c).cells.push_back(std::move(cells[c]));
}

std::vector<std::string> TextTable::row(std::size_t number) const {
  return mapped(columns, [number](const TextColumn& column) { return column.cells[number]; });
}

std::string heading(const TextColumn& column) {
  if (column.top.empty() || column.top.ends_with('-')) return column.top + column.bottom;
  return column.top + ' ' + column.bottom;
}

std::string render_rows(TextTable table, std::size_t width) {
  while (width > 0 && width_of(table) > width && drop_one(table)) {
  }
  if (const std::size_t wide = width_of(table); width > 0 && wide > width)
    shorten_names(table, wide - width);
  const std::vector<std::size_t> widths =
      mapped(table.columns, [](const TextColumn& column) { return width_of(column); });
  std::string text = line_of(table, widths, &TextColumn::top);
  if (text == "\n") text.clear();  // headings of one line
  text += line_of(table, widths, &TextColumn::bottom);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    text += line_of(table, widths, [row](const TextColumn& column) -> const std::string& {
      return column.cells[row];
    });
  }
  return text;
}

std::string Footnotes::mark(const std::string& reason) {
  const auto [found, fresh] = numbers_.emplace(reason, reasons_.size() + 1);
  if (fresh) reasons_.push_back(reason);
  return fmt::format("({})", found->second);
}

std::vector<std::string> Footnotes::lines() const {
  std::vector<std::string> all;
  for (const std::string& reason : reasons_)
    all.push_back(printable(fmt::format("({}) {}", all.size() + 1, reason)));
  return all;
}

}  // namespace ddpbench::report
