// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kColumnGap = 2;  // spaces between columns

std::size_t width_of(const TextColumn& column) {
  std::size_t width = std::max(display_width(column.top), display_width(column.bottom));
  for (const std::string& cell : column.cells) width = std::max(width, display_width(cell));
  return width;
}

// A column and its width over all cells.
struct SizedColumn {
  const TextColumn* column;
  std::size_t width;
};
using Block = std::vector<SizedColumn>;

std::string aligned(const std::string& text, const SizedColumn& sized) {
  const std::string fill(sized.width - display_width(text), ' ');
  return sized.column->left ? text + fill : fill + text;
}

std::string join_cells(const std::vector<std::string>& cells) {
  std::string line = fmt::format("{}", fmt::join(cells, std::string(kColumnGap, ' ')));
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// A row with a text in place of its empty cells. The text may be wider than the first of them, and
// moves what stands after it only where it is wider than all that lie between.
std::string replaced_row(const Block& block, std::size_t row, std::size_t keys,
                         const std::string& instead) {
  std::string line;
  std::size_t begin = 0;  // of the column
  bool told = false;
  const auto put = [&](const std::string& text) {
    const std::size_t used = line.empty() ? 0 : display_width(line) + kColumnGap;
    line.append(std::max(begin, used) - display_width(line), ' ');
    line += text;
  };
  for (std::size_t c = 0; c < block.size(); ++c) {
    const std::string& cell = block[c].column->cells[row];
    if (c < keys || !cell.empty()) {
      put(aligned(cell, block[c]));
    } else if (!told) {
      put(instead);
      told = true;
    }
    begin += block[c].width + kColumnGap;
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

Block sized(const TextTable& table) {
  Block columns;
  for (const TextColumn& column : table.columns) columns.push_back({&column, width_of(column)});
  return columns;
}

std::size_t width_of(const Block& block) {
  std::size_t width = 0;
  for (const SizedColumn& column : block) width += column.width + kColumnGap;
  return width > 0 ? width - kColumnGap : 0;
}

}  // namespace

void TextTable::add_row(std::vector<std::string> cells) {
  for (std::size_t c = 0; c < cells.size(); ++c) columns.at(c).cells.push_back(std::move(cells[c]));
  instead.emplace_back();
}

std::vector<std::string> TextTable::row(std::size_t number) const {
  std::vector<std::string> cells;
  for (const TextColumn& column : columns) cells.push_back(column.cells[number]);
  if (!instead[number].empty()) {
    const auto values = cells.begin() + static_cast<std::ptrdiff_t>(keys);
    *std::find(values, cells.end(), "") = instead[number];
  }
  return cells;
}

std::string heading(const TextColumn& column) {
  if (column.top.empty() || column.top.ends_with('-')) return column.top + column.bottom;
  return column.top + ' ' + column.bottom;
}

std::string render_rows(TextTable table, std::size_t width) {
  while (width > 0 && width_of(sized(table)) > width && drop_one(table)) {
  }
  if (const std::size_t wide = width_of(sized(table)); width > 0 && wide > width)
    shorten_names(table, wide - width);
  const Block block = sized(table);
  std::vector<std::string> top, bottom;
  for (const SizedColumn& column : block) {
    top.push_back(aligned(column.column->top, column));
    bottom.push_back(aligned(column.column->bottom, column));
  }
  std::string text = join_cells(top);
  if (text == "\n") text.clear();  // headings of one line
  text += join_cells(bottom);
  for (std::size_t row = 0; row < table.instead.size(); ++row) {
    if (!table.instead[row].empty()) {
      text += replaced_row(block, row, table.keys, table.instead[row]);
      continue;
    }
    std::vector<std::string> cells;
    for (const SizedColumn& column : block)
      cells.push_back(aligned(column.column->cells[row], column));
    text += join_cells(cells);
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
