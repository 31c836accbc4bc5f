// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/picture_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kHistoryHeight = 210;
constexpr double kLabelGap = 8;  // between labels of commits

double least_of(const HistoryPoint& point) { return point.spread.low.value.value_or(point.step_s); }
double most_of(const HistoryPoint& point) { return point.spread.high.value.value_or(point.step_s); }

// Round ticks around [least, most], which is widened where it has no width.
Axis axis_around(double least, double most, const Unit& unit) {
  constexpr double kTicks = 4;
  const double room = most > least ? (most - least) / 10 : most / 20;
  const double raw = (most - least + 2 * room) / unit.size / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double share = raw / power;
  const double step = power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
  const double first = std::floor((least - room) / unit.size / step);
  const double last = std::ceil((most + room) / unit.size / step);
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  Axis axis;
  axis.begin = std::max(0.0, first) * step * unit.size;
  axis.end = last * step * unit.size;
  for (double tick = std::max(0.0, first); tick <= last; ++tick) {
    axis.ticks.push_back(tick * step * unit.size);
    axis.labels.push_back(fixed(tick * step, decimals));
  }
  return axis;
}

class HistoryPanel {
 public:
  HistoryPanel(const History& history, const HistoryLine& line) : history_(history), line_(line) {
    double least = least_of(line.points.front()), most = most_of(line.points.front());
    for (const HistoryPoint& point : line.points) {
      least = std::min(least, least_of(point));
      most = std::max(most, most_of(point));
    }
    unit_ = time_unit(most);
    axis_ = axis_around(least, most, unit_);
    area_ = {label_room(axis_), 44, kPanelWidth - 12, kHistoryHeight - 24};
  }

  Panel draw(std::size_t index) {
    svg_text(markup_, {0, 14}, Anchor::start, "name", fitted(line_.name, kPanelWidth));
    draw_y_axis(markup_, area_, axis_, "step, " + unit_.name);
    draw_commits();
    std::string path;
    for (const HistoryPoint& point : line_.points) {
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", decimal(x_of(point.commit)),
                          decimal(y_of(point.step_s)));
    }
    markup_.open("g", {{"class", style_class(0)}});
    svg_path(markup_, path, "series");
    for (const HistoryPoint& point : line_.points) draw_point(point);
    markup_.close();
    return {{fmt::format("svg-history-{}", index), line_.name,
             "The median step time at each commit, with its interval over the repetitions."},
            kPanelWidth,
            kHistoryHeight,
            markup_.take()};
  }

 private:
  double x_of(std::size_t commit) const {
    const auto last = static_cast<double>(history_.commits.size() - 1);
    const double margin = 14;
    if (last == 0) return area_.left + area_.width() / 2;
    return area_.left + margin + (area_.width() - 2 * margin) * static_cast<double>(commit) / last;
  }
  double y_of(double seconds) const {
    return area_.bottom - area_.height() * std::clamp(axis_.position(seconds), 0.0, 1.0);
  }

  // Short names below the points that were measured, as far as there is room.
  void draw_commits() {
    constexpr std::size_t kShown = 7;
    double free_from = 0;
    for (const HistoryPoint& point : line_.points) {
      const std::string name = history_.commits[point.commit].name.substr(0, kShown);
      const double half = text_width(name) / 2;
      const double x = std::clamp(x_of(point.commit), half, kPanelWidth - half);
      if (x - half < free_from) continue;
      free_from = x + half + kLabelGap;
      svg_text(markup_, {x, area_.bottom + 17}, Anchor::middle, "tick", name);
    }
  }

  void draw_point(const HistoryPoint& point) {
    const double x = x_of(point.commit);
    std::string tip =
        fmt::format("{}\n{}\n{}", history_.commits[point.commit].name,
                    with_unit(point.step_s, unit_), counted(point.repetitions, "repetition"));
    if (point.spread.low.value && point.spread.high.value) {
      svg_path(markup_, error_bar(x, y_of(*point.spread.low.value), y_of(*point.spread.high.value)),
               "error");
      tip += fmt::format(": {} to {}", number(*point.spread.low.value / unit_.size),
                         number(*point.spread.high.value / unit_.size));
    }
    svg_path(markup_, marker_path(0, {x, y_of(point.step_s)}), "marker", tip);
  }

  Markup markup_;
  const History& history_;
  const HistoryLine& line_;
  Unit unit_;
  Axis axis_;
  Area area_;
};

}  // namespace

Picture history_picture(const History& history) {
  Picture picture{"commits", "Over commits", {}, {}, {}};
  picture.caption.title = "Over commits: the median step of each setting";
  picture.caption.subtitle =
      counted(history.commits.size(), "commit") +
      (history.measured_order ? fmt::format(", from {} to {}", history.commits.front().started_at,
                                            history.commits.back().started_at)
                              : ", in the order in which their reports were given");
  const std::size_t drawn = std::min(history.lines.size(), kMostHistoryPanels);
  for (std::size_t i = 0; i < drawn; ++i) {
    picture.panels.push_back(HistoryPanel(history, history.lines[i]).draw(i));
  }
  std::vector<std::string>& notes = picture.caption.notes;
  notes.emplace_back(
      "bars: 95 % interval of the median over the repetitions; least and most of fewer than 6");
  notes.emplace_back("axes do not begin at 0");
  if (drawn < history.lines.size()) {
    notes.push_back(fmt::format("no room for {} more settings; the table has them",
                                history.lines.size() - drawn));
  }
  return picture;
}

}  // namespace ddpbench::report::pictures
