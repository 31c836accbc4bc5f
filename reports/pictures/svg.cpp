// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/ranges.h"
#include "base/text.h"

namespace ddpbench::report::pictures {
namespace {

constexpr std::size_t kStyles = 8;  // as in pictures.css

constexpr double kCharacter = 7.2;  // generous for a character of type kFont high, on average

constexpr const char* kNarrowGap = "\u202F";  // keeps a number on one line

std::string with_gaps(std::string digits) {
  const std::size_t sign = digits.starts_with('-') ? 1 : 0;
  const std::size_t point = std::min(digits.find('.'), digits.size());
  if (point - sign <= 4) return digits;
  for (std::size_t at = point; at > sign + 3;) {
    at -= 3;
    digits.insert(at, kNarrowGap);
  }
  return digits;
}

// The smallest 1, 2, 2.5 or 5 times a power of ten that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    // With a tolerance, so that rounding does not skip a step that fits exactly.
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

int decimals_of(double step) {
  for (int decimals = 0; decimals < 9; ++decimals) {
    const double scaled = step * std::pow(10.0, decimals);
    if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 9;
}

}  // namespace

Unit time_unit(double largest_s) {
  if (largest_s >= 10) return {"s", 1};
  if (largest_s >= 1e-3) return {"ms", 1e-3};
  return {"\u00B5s", 1e-6};
}

Unit memory_unit(double largest_bytes) {
  constexpr double kGiB = 1024.0 * kMiB;
  if (largest_bytes >= 10 * kGiB) return {"GiB", kGiB};
  return largest_bytes >= kMiB ? Unit{"MiB", kMiB} : Unit{"KiB", 1024};
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value) || std::abs(value) >= 1e15) return fmt::format("{:.3g}", value);
  return with_gaps(fmt::format("{:.{}f}", value, decimals));
}

std::string number(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size < 1e-4) return fmt::format("{:.2e}", value);
  return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4);
}

std::string with_unit(double value, const Unit& unit) {
  return number(value / unit.size) + "\u00A0" + unit.name;
}

double Axis::position(double value) const {
  if (!logarithmic) return (value - begin) / (end - begin);
  return value > 0 ? std::log(value / begin) / std::log(end / begin) : 0;
}

Axis axis_over(double least, double most, const Unit& unit, int most_ticks) {
  const double step = round_step((most - least) / unit.size / most_ticks);
  // With a tolerance, so that rounding does not add a step beyond an end that fits exactly.
  const double first = std::floor(least / unit.size / step + 1e-9);
  const double last = std::ceil(most / unit.size / step - 1e-9);
  Axis axis{first * step * unit.size, last * step * unit.size, false, {}, {}};
  for (int i = 0; first + i <= last; ++i) {
    const double tick = (first + i) * step;
    axis.ticks.push_back(tick * unit.size);
    axis.labels.push_back(tick == 0                     ? "0"
                          : step >= 1e15 || step < 1e-9 ? fmt::format("{:.3g}", tick)
                                                        : fixed(tick, decimals_of(step)));
  }
  return axis;
}

Axis axis_to(double largest, const Unit& unit, int most_ticks) {
  return axis_over(0, largest > 0 && std::isfinite(largest) ? largest : unit.size, unit,
                   most_ticks);
}

Axis log_axis(double least, double largest, const Unit& unit, int most_ticks) {
  constexpr int kInDecade = 3;
  const auto tick = [](int i) {
    const int decade = static_cast<int>(std::floor(static_cast<double>(i) / kInDecade));
    constexpr double kFactors[kInDecade] = {1, 2, 5};
    return kFactors[i - decade * kInDecade] * std::pow(10.0, decade);
  };
  const auto decade_of = [](double value) {
    return static_cast<int>(std::floor(std::log10(value)));
  };
  const double low = least / unit.size, high = largest / unit.size;
  int first = kInDecade * (decade_of(low) - 1), last = kInDecade * decade_of(high);
  while (tick(first + 1) <= low) ++first;
  while (tick(last) < high) ++last;
  last = std::max(last, first + 1);
  int step = 1;
  if (last - first + 1 > most_ticks) {  // whole powers of ten, as few as needed
    first = decade_of(low) * kInDecade;
    const int decades = (last - first + kInDecade - 1) / kInDecade;
    step = kInDecade * ((decades + most_ticks - 2) / (most_ticks - 1));
    last = first + step * ((last - first + step - 1) / step);
  }
  Axis axis{tick(first) * unit.size, tick(last) * unit.size, true, {}, {}};
  for (int i = first; i <= last; i += step) {
    axis.ticks.push_back(tick(i) * unit.size);
    axis.labels.push_back(tick(i) >= 1 ? fixed(tick(i), 0) : fmt::format("{:.3g}", tick(i)));
  }
  return axis;
}

std::string decimal(double length) {
  std::string text = fmt::format("{:.1f}", length);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

void svg_text(Markup& markup, Point at, Anchor anchor, std::string_view classes,
              std::string_view text) {
  markup.leaf(
      "text",
      {{"x", decimal(at.x)},
       {"y", decimal(at.y)},
       {anchor == Anchor::start ? "" : "text-anchor", anchor == Anchor::middle ? "middle" : "end"},
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
  return kCharacter * static_cast<double>(display_width(text));
}

std::string fitted(const std::string& text, double width) {
  return elided(text, width, text_width);
}

std::vector<std::string> wrapped(const std::string& text, double width, std::size_t most) {
  const auto columns = std::max<std::size_t>(static_cast<std::size_t>(width / kCharacter), 1);
  std::vector<std::string> lines = split(wrap(text, columns, 0), '\n');
  lines.pop_back();  // behind the last newline
  if (text.empty()) return {};
  if (lines.size() > most) {
    lines[most - 1] = joined(lines | std::views::drop(most - 1), " ");
    lines.resize(most);
  }
  for (std::string& line : lines) line = fitted(line, width);
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

double label_room(const Axis& axis) { return largest(axis.labels, 0.0, text_width) + 8; }

}  // namespace ddpbench::report::pictures
