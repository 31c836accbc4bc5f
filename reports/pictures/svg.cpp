// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/text.h"

namespace ddpbench::report::pictures {
namespace {

constexpr std::size_t kStyles = 8;  // as in pictures.css

// The width of a character that begins with `first`, in type 12 high, by the widest usual font.
double character_width(unsigned char first) {
  constexpr std::string_view kWide = "mwMW@%", kNarrow = " .,:;'|!()[]/ijlft";
  if (first >= 0x80) return first >= 0xE2 ? 12.2 : 8;  // beyond Latin and Greek letters
  const auto letter = static_cast<char>(first);
  if (kWide.find(letter) != std::string_view::npos) return 11.9;
  if (kNarrow.find(letter) != std::string_view::npos) return 4.8;
  return letter >= 'A' && letter <= 'Z' ? 9.2 : 7.7;
}

const char* word(Anchor anchor) {
  if (anchor == Anchor::start) return "start";
  return anchor == Anchor::middle ? "middle" : "end";
}

}  // namespace

std::string decimal(double length) {
  std::string text = fmt::format("{:.1f}", length);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

void svg_text(Markup& markup, Point at, Anchor anchor, std::string_view classes,
              std::string_view text) {
  markup.leaf("text",
              {{"x", decimal(at.x)},
               {"y", decimal(at.y)},
               {anchor == Anchor::start ? "" : "text-anchor", word(anchor)},
               {classes.empty() ? "" : "class", std::string(classes)}},
              text);
}

void svg_line(Markup& markup, Point from, Point to, std::string_view classes) {
  markup.empty("line", {{"x1", decimal(from.x)},
                        {"y1", decimal(from.y)},
                        {"x2", decimal(to.x)},
                        {"y2", decimal(to.y)},
                        {"class", std::string(classes)}});
}

void svg_rect(Markup& markup, Point corner, double width, double height, const std::string& classes,
              const std::string& tip) {
  markup.open("rect", {{"x", decimal(corner.x)},
                       {"y", decimal(corner.y)},
                       {"width", decimal(std::max(width, 0.0))},
                       {"height", decimal(std::max(height, 0.0))},
                       {"class", classes}});
  if (!tip.empty()) markup.leaf("title", tip);
  markup.close();
}

void svg_path(Markup& markup, const std::string& path, const std::string& classes,
              const std::string& tip) {
  markup.open("path", {{"d", path}, {"class", classes}});
  if (!tip.empty()) markup.leaf("title", tip);
  markup.close();
}

double text_width(std::string_view text) {
  double width = 0;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80) width += character_width(static_cast<unsigned char>(c));
  }
  return width;
}

std::string fitted(const std::string& text, double width) {
  return elided(text, width, text_width);
}

std::vector<std::string> wrapped(const std::string& text, double width, std::size_t most) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.empty()) {
      const std::string longer = lines.back() + ' ' + word;
      if (text_width(longer) <= width) {
        lines.back() = longer;
        continue;
      }
      if (lines.size() == most) {
        std::string rest;
        std::getline(words, rest, '\0');
        lines.back() = fitted(longer + rest, width);
        break;
      }
    }
    lines.push_back(fitted(word, width));
  }
  return lines;
}

std::string marker_path(std::size_t style, Point at) {
  const auto from = fmt::format("M{} {}", decimal(at.x), decimal(at.y));
  // Circle, square, triangle, diamond, triangle upside down, cross.
  constexpr const char* kShapes[] = {"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
                                     "m-4 -4h8v8h-8z",
                                     "m0 -5l5 9h-10z",
                                     "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
                                     "m0 5l5 -9h-10z",
                                     "m-1.5 -5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z"};
  return from + kShapes[style % std::size(kShapes)];
}

std::string error_bar(double x, double from_y, double to_y) {
  return fmt::format("M{0} {1}V{2}M{3} {1}h6M{3} {2}h6", decimal(x), decimal(from_y), decimal(to_y),
                     decimal(x - 3));
}

std::string error_bar_across(double y, double from_x, double to_x) {
  return fmt::format("M{1} {0}H{2}M{1} {3}v6M{2} {3}v6", decimal(y), decimal(from_x), decimal(to_x),
                     decimal(y - 3));
}

std::string style_class(std::size_t style) { return fmt::format("s{}", style % kStyles); }

void draw_x_axis(Markup& markup, const Area& area, const Axis& axis, const std::string& title) {
  for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
    const double x = area.left + area.width() * axis.position(axis.ticks[i]);
    svg_line(markup, {x, area.top}, {x, area.bottom}, i == 0 ? "axis" : "grid");
    const Anchor anchor = i == 0                       ? Anchor::start
                          : i + 1 == axis.ticks.size() ? Anchor::end
                                                       : Anchor::middle;
    svg_text(markup, {x, area.bottom + 14}, anchor, "tick", axis.labels[i]);
  }
  svg_text(markup, {area.left + area.width() / 2, area.bottom + 31}, Anchor::middle, "tick", title);
}

void draw_y_axis(Markup& markup, const Area& area, const Axis& axis, const std::string& title) {
  for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
    const double y = area.bottom - area.height() * axis.position(axis.ticks[i]);
    svg_line(markup, {area.left, y}, {area.right, y}, i == 0 ? "axis" : "grid");
    svg_text(markup, {area.left - 6, y + 4}, Anchor::end, "tick", axis.labels[i]);
  }
  svg_text(markup, {0, area.top - 12}, Anchor::start, "tick", title);
}

double label_room(const Axis& axis) {
  double most = 0;
  for (const std::string& label : axis.labels) most = std::max(most, text_width(label));
  return most + 8;
}

}  // namespace ddpbench::report::pictures
