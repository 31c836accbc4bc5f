// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/chart_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kLeastWidth = 40, kLeastCells = 10, kIndent = 2, kGap = 2;
constexpr std::size_t kLongestLabel = 28;

// The beginning of `text`, at most `columns` code points.
std::string first_columns(const std::string& text, std::size_t columns) {
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && columns-- == 0) break;
  }
  return text.substr(0, i);
}

}  // namespace

TextBar::TextBar(std::size_t cells, double most) : cells_(cells, " "), most_(most > 0 ? most : 1) {}

std::size_t TextBar::cell_of(double value) const {
  const double cell = std::round(value / most_ * static_cast<double>(cells_.size()));
  return static_cast<std::size_t>(std::clamp(cell, 0.0, static_cast<double>(cells_.size())));
}

void TextBar::fill(double begin, double end, std::string_view mark) {
  for (std::size_t i = cell_of(begin); i < cell_of(end); ++i) cells_[i] = mark;
}

void TextBar::set(double value, std::string_view mark) {
  if (!cells_.empty()) cells_[std::min(cell_of(value), cells_.size() - 1)] = mark;
}

std::string TextBar::text() const { return fmt::format("{}", fmt::join(cells_, "")); }

TextCanvas::TextCanvas(const Chart& chart, int width, const std::vector<TextRow>& rows)
    : width_(std::max(kLeastWidth, static_cast<std::size_t>(std::max(width, 0)))) {
  for (const TextRow& row : rows) {
    label_ = std::max(label_, display_width(row.label));
    numbers_ = std::max(numbers_, display_width(row.numbers));
  }
  const std::size_t after = numbers_ > 0 ? kGap + numbers_ : 0;
  const auto before = [this, longest = std::min(label_, kLongestLabel)](std::size_t share) {
    label_ = std::min(longest, width_ / share);
    return kIndent + label_ + kGap;
  };
  numbers_below_ = before(3) + kLeastCells + after > width_;
  cells_ = width_ - before(numbers_below_ ? 2 : 3) - (numbers_below_ ? 0 : after);
  line(chart.caption.title, kIndent);
  line(chart.caption.subtitle, kIndent);
}

void TextCanvas::line(const std::string& text, std::size_t indent) {
  text_ += wrap(printable(text), width_, indent);
}

void TextCanvas::row(const TextRow& row, const std::string& bar) {
  if (row.above != heading_) {
    heading_ = row.above;
    text_ += '\n';
    line(heading_, kIndent);
  }
  std::string one = std::string(kIndent, ' ') + fitted(printable(row.label), label_) +
                    std::string(kGap, ' ') + fitted(bar, cells_);
  const bool beside = !row.numbers.empty() && !numbers_below_;
  if (beside) one += std::string(kGap, ' ') + fitted(row.numbers, numbers_, true);
  text_ += one.erase(one.find_last_not_of(' ') + 1) + '\n';
  if (!row.numbers.empty() && numbers_below_) {
    text_ += std::string(kIndent, ' ') + fitted(row.numbers, width_ - kIndent, true) + '\n';
  }
}

void TextCanvas::below(const std::string& bar, const std::string& numbers) {
  row({heading_, "", numbers}, bar);
}

std::string TextCanvas::finish(const Chart& chart) {
  if (!chart.caption.notes.empty()) text_ += '\n';
  for (const std::string& note : chart.caption.notes) line(note, kIndent);
  return std::move(text_);
}

std::string fitted(const std::string& text, std::size_t columns, bool right) {
  const std::size_t width = display_width(text);
  if (width > columns) {
    return columns > 3 ? first_columns(text, columns - 3) + "..." : first_columns(text, columns);
  }
  const std::string blanks(columns - width, ' ');
  return right ? blanks + text : text + blanks;
}

std::string heading_of(const Chart& chart, std::size_t series) {
  return printable(chart.series[series].name);
}

std::string devices_text(int devices, bool oversubscribed) {
  return fmt::format("{:2}{}", devices, oversubscribed ? "*" : " ");
}

}  // namespace ddpbench::report
