// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A panel for each of many: bus bandwidth over size for each collective, all with the same
// logarithmic axes, and the step over commits for each setting.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "reports/metrics/history.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kBandwidthHeight = 190, kNameLine = 22, kAboveBandwidth = 52, kSizesRoom = 36;
constexpr double kSizeGap = 8;  // between labels of sizes

const Unit kGigabytes = {"GB/s", 1};

// What all panels share.
struct BandwidthAxes {
  double least_bytes = 0, most_bytes = 0;
  std::set<std::uint64_t> sizes;
  Axis rate;
};

BandwidthAxes axes_of(const BandwidthChart& chart) {
  BandwidthAxes axes;
  double least = chart.points.front().gb_per_s.min, most = 0;
  for (const BandwidthPoint& point : chart.points) {
    axes.sizes.insert(point.bytes);
    least = std::min(least, point.gb_per_s.min);
    most = std::max({most, point.gb_per_s.max, point.bound_gb_per_s.value_or(0)});
    if (point.bound_gb_per_s) least = std::min(least, *point.bound_gb_per_s);
  }
  axes.least_bytes = static_cast<double>(*axes.sizes.begin());
  axes.most_bytes = static_cast<double>(*axes.sizes.rbegin());
  axes.rate = log_axis(least, most, kGigabytes, 7);
  return axes;
}

class BandwidthPanel {
 public:
  BandwidthPanel(const BandwidthChart& chart, std::size_t operation, const BandwidthAxes& axes,
                 const Medium& medium)
      : chart_(chart),
        operation_(operation),
        axes_(axes),
        width_(medium.plot_width),
        area_{label_room(axes.rate), kAboveBandwidth, width_ - 16,
              kAboveBandwidth + medium.stretch * kBandwidthHeight} {}

  Panel draw() {
    const std::string& name = chart_.operations[operation_];
    svg_text(markup_, {0, kNameLine - 8}, Anchor::start, "row", fitted(name, width_));
    draw_y_axis(markup_, area_, axes_.rate, "bus bandwidth, GB/s");
    draw_sizes();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_bound(i);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_line(i);
    return {{fmt::format("svg-bandwidth-{}", operation_), "Bus bandwidth of " + name,
             "A line for each world, over the bytes of the buffer; dotted: what memory allows. " +
                 chart_.caption.title},
            width_,
            area_.bottom + kSizesRoom,
            markup_.take()};
  }

 private:
  double x_of(std::uint64_t bytes) const {
    if (axes_.most_bytes == axes_.least_bytes) return area_.left + area_.width() / 2;
    const double first = std::log2(axes_.least_bytes), last = std::log2(axes_.most_bytes);
    const double margin = 0.04 * area_.width();
    return area_.left + margin +
           (area_.width() - 2 * margin) * (std::log2(static_cast<double>(bytes)) - first) /
               (last - first);
  }
  double y_of(double gb_per_s) const {
    return area_.bottom - area_.height() * std::clamp(axes_.rate.position(gb_per_s), 0.0, 1.0);
  }

  // A tick for each size, with a label where there is room.
  void draw_sizes() {
    double free_from = 0;
    for (const std::uint64_t bytes : axes_.sizes) {
      const double x = x_of(bytes);
      svg_line(markup_, {x, area_.bottom}, {x, area_.bottom + 4}, "axis");
      const std::string text = size_text(bytes);
      const double half = text_width(text) / 2;
      if (x - half < free_from || x + half > width_) continue;
      free_from = x + half + kSizeGap;
      svg_text(markup_, {x, area_.bottom + 17}, Anchor::middle, "tick", text);
    }
    svg_text(markup_, {area_.left + area_.width() / 2, area_.bottom + 33}, Anchor::middle, "tick",
             "size of the buffer");
  }

  template <typename Visit>
  void for_points(std::size_t series, Visit visit) const {
    for (const BandwidthPoint& point : chart_.points) {
      if (point.panel == operation_ && point.series == series) visit(point);
    }
  }

  // A short line where there is only one size.
  void draw_bound(std::size_t series) {
    std::string path;
    double last_x = 0, last_y = 0;
    std::size_t count = 0;
    for_points(series, [&](const BandwidthPoint& point) {
      if (!point.bound_gb_per_s) return;
      last_x = x_of(point.bytes);
      last_y = y_of(*point.bound_gb_per_s);
      path += fmt::format("{}{} {}", count++ == 0 ? "M" : "L", decimal(last_x), decimal(last_y));
    });
    if (count == 0) return;
    if (count == 1) {
      path = fmt::format("M{} {}h28", decimal(last_x - 14), decimal(last_y));
    }
    open_entry(markup_, chart_.series.size(), line_class(chart_.series[series]));
    svg_path(markup_, path, "bound", "bound: " + chart_.series[series].name);
    markup_.close();
  }

  void draw_line(std::size_t series) {
    std::string line;
    for_points(series, [&](const BandwidthPoint& point) {
      line += fmt::format("{}{} {}", line.empty() ? "M" : "L", decimal(x_of(point.bytes)),
                          decimal(y_of(point.gb_per_s.median)));
    });
    if (line.empty()) return;
    open_entry(markup_, series, line_class(chart_.series[series]));
    svg_path(markup_, line, "series");
    for_points(series, [&](const BandwidthPoint& point) { draw_point(point); });
    markup_.close();
  }

  void draw_point(const BandwidthPoint& point) {
    const Spread& rate = point.gb_per_s;
    const double x = x_of(point.bytes);
    std::string tip = fmt::format("{}, {}\n{}{}\n{}", chart_.operations[operation_],
                                  chart_.series[point.series].name, size_text(point.bytes),
                                  point.oversubscribed ? ", oversubscribed" : "",
                                  with_unit(rate.median, kGigabytes));
    if (rate.count > 1) {
      svg_path(markup_, error_bar(x, y_of(rate.min), y_of(rate.max)), "error");
      tip += fmt::format("\n{} measurements: {} to {}", rate.count, number(rate.min),
                         number(rate.max));
    }
    if (point.bound_gb_per_s) {
      tip += fmt::format("\n{:.1f} % of the bound of {}", 100 * rate.median / *point.bound_gb_per_s,
                         with_unit(*point.bound_gb_per_s, kGigabytes));
    }
    svg_path(markup_, marker_path(line_marker(chart_.series[point.series]), {x, y_of(rate.median)}),
             point.oversubscribed ? "marker hollow" : "marker", tip);
  }

  Markup markup_;
  const BandwidthChart& chart_;
  std::size_t operation_;
  const BandwidthAxes& axes_;
  double width_;
  Area area_;
};

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

Picture bandwidth_picture(const BandwidthChart& chart, const Medium& medium) {
  Picture picture{"bandwidth", "Bus bandwidth", chart.caption, line_legend(chart.series), {}};
  const bool bounds = std::ranges::any_of(
      chart.points, [](const BandwidthPoint& point) { return point.bound_gb_per_s.has_value(); });
  if (bounds) picture.legend.push_back({"bound", {}, LegendEntry::Mark::dotted});
  const BandwidthAxes axes = axes_of(chart);
  for (std::size_t i = 0; i < chart.operations.size(); ++i) {
    picture.panels.push_back(BandwidthPanel(chart, i, axes, medium).draw());
  }
  picture.caption.notes.emplace_back("logarithmic axes, the same in all panels");
  return picture;
}

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
