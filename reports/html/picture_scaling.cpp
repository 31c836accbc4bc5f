// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Throughput, and efficiency beside it, over the number of devices.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "reports/html/picture.h"

namespace ddpbench::report::html {
namespace {

constexpr double kHeight = 300;
constexpr double kMargin = 0.07;     // of the range of devices, left and right of the points
constexpr double kTickGap = 26;      // between labels of devices, at least
constexpr double kDodge = 3;         // so that error bars at one place do not cover each other
constexpr double kMostOverData = 4;  // the ideal line leaves the picture above this

// One panel: which value it shows.
struct Quantity {
  std::string name;  // above its axis
  Unit unit;
  std::optional<Spread> (*of)(const ScalingPoint& point);
};

std::optional<Spread> rate_of(const ScalingPoint& point) { return point.samples_per_s; }
std::optional<Spread> efficiency_of(const ScalingPoint& point) { return point.efficiency; }

class Panel {
 public:
  Panel(Markup& page, const ScalingChart& chart, Quantity quantity, double largest)
      : page_(page), chart_(chart), quantity_(std::move(quantity)) {
    axis_ = axis_to(largest, quantity_.unit, 5);
    area_ = {label_room(axis_), 30, kWidth - 4, kHeight - 36};
    const auto [least, most] = std::ranges::minmax(chart.points, {}, &ScalingPoint::devices);
    const double range = std::max(most.devices - least.devices, 1);
    const bool one = most.devices == least.devices;
    first_ = least.devices - range * (one ? 0.5 : kMargin);
    last_ = most.devices + range * (one ? 0.5 : kMargin);
  }

  void draw_axes() const {
    draw_y_axis(page_, area_, axis_, quantity_.name);
    std::vector<int> counts;
    for (const ScalingPoint& point : chart_.points) counts.push_back(point.devices);
    std::ranges::sort(counts);
    counts.erase(std::ranges::unique(counts).begin(), counts.end());
    double last_x = -kTickGap;
    for (const int count : counts) {
      const double x = x_of(count);
      svg_line(page_, {x, area_.bottom}, {x, area_.bottom + 4}, "axis");
      if (x - last_x < kTickGap) continue;
      last_x = x;
      svg_text(page_, {x, area_.bottom + 17}, Anchor::middle, "tick", std::to_string(count));
    }
    svg_text(page_, {area_.left + area_.width() / 2, area_.bottom + 33}, Anchor::middle, "tick",
             "devices");
  }

  // y = slope x devices, or slope alone; ends where it leaves the picture.
  void draw_ideal(double slope, bool constant, const std::string& tip) const {
    const double from = std::max(1.0, first_);
    double to = last_;
    if (!constant && slope > 0) to = std::min(to, axis_.end / slope);
    if (to <= from) return;
    const auto y = [&](double devices) { return y_of(constant ? slope : slope * devices); };
    svg_path(page_,
             fmt::format("M{} {}L{} {}", decimal(x_of(from)), decimal(y(from)), decimal(x_of(to)),
                         decimal(y(to))),
             "ideal", tip);
  }

  void draw_series(std::size_t series) const {
    const std::size_t style = chart_.series[series].style;
    const auto middle = static_cast<double>(chart_.series.size() - 1) / 2;
    const double dodge = std::clamp((static_cast<double>(series) - middle) * kDodge, -9.0, 9.0);
    std::string line;
    open_entry(page_, series, style_class(style));
    for (const ScalingPoint& point : chart_.points) {
      const auto value = point.series == series ? quantity_.of(point) : std::nullopt;
      if (!value) continue;
      line += fmt::format("{}{} {}", line.empty() ? "M" : "L", decimal(x_of(point.devices) + dodge),
                          decimal(y_of(value->median)));
    }
    if (!line.empty()) svg_path(page_, line, "series");
    for (const ScalingPoint& point : chart_.points) {
      const auto value = point.series == series ? quantity_.of(point) : std::nullopt;
      if (value) draw_point(point, *value, x_of(point.devices) + dodge);
    }
    page_.close();
  }

 private:
  double x_of(double devices) const {
    return area_.left + area_.width() * (devices - first_) / (last_ - first_);
  }
  double y_of(double value) const {
    return area_.bottom - area_.height() * std::min(axis_.position(value), 1.0);
  }

  void draw_point(const ScalingPoint& point, const Spread& value, double x) const {
    if (value.count > 1) {
      svg_path(page_,
               fmt::format("M{0} {1}V{2}M{3} {1}h6M{3} {2}h6", decimal(x), decimal(y_of(value.min)),
                           decimal(y_of(value.max)), decimal(x - 3)),
               "error");
    }
    std::string tip = fmt::format(
        "{} on {}{}\n{}", chart_.series[point.series].name, counted(point.devices, "device"),
        point.oversubscribed ? ", oversubscribed" : "", with_unit(value.median, quantity_.unit));
    if (value.count > 1) {
      tip += fmt::format("\n{} repetitions: {} to {}", value.count,
                         number(value.min / quantity_.unit.size),
                         number(value.max / quantity_.unit.size));
    }
    svg_path(page_, marker_path(chart_.series[point.series].style, {x, y_of(value.median)}),
             point.oversubscribed ? "marker hollow" : "marker", tip);
  }

  Markup& page_;
  const ScalingChart& chart_;
  Quantity quantity_;
  Axis axis_;
  Area area_;
  double first_ = 0, last_ = 1;
};

double largest_rate(const ScalingChart& chart) {
  double data = 0, ideal = 0;
  int devices = 1;
  for (const ScalingPoint& point : chart.points) {
    data = std::max(data, point.samples_per_s.max);
    devices = std::max(devices, point.devices);
  }
  for (const auto& one : chart.ideals) ideal = std::max(ideal, one.samples_per_s_per_device);
  return std::max(data, std::min(ideal * devices, kMostOverData * data));
}

void draw_throughput(Markup& page, const ScalingChart& chart) {
  open_svg(page,
           {"svg-throughput", "Throughput over devices",
            "A line for each strategy; the dotted line is perfect scaling. " + chart.caption.title},
           kHeight);
  const Panel panel(page, chart, {"samples/s", rate_unit(), rate_of}, largest_rate(chart));
  panel.draw_axes();
  for (const auto& ideal : chart.ideals) {
    panel.draw_ideal(ideal.samples_per_s_per_device, false,
                     fmt::format("{}: {} for each device", ideal.name,
                                 with_unit(ideal.samples_per_s_per_device, rate_unit())));
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) panel.draw_series(i);
  page.close();
}

void draw_efficiency(Markup& page, const ScalingChart& chart) {
  double largest = 1;
  bool any = false;
  for (const ScalingPoint& point : chart.points) {
    if (point.efficiency) largest = std::max(largest, point.efficiency->max);
    any = any || point.efficiency;
  }
  if (!any) return;
  open_svg(page,
           {"svg-efficiency", "Scaling efficiency over devices",
            "A line for each strategy; the dotted line at 100 % is perfect scaling. " +
                chart.caption.title},
           kHeight);
  const Panel panel(page, chart, {"efficiency, %", {"%", 0.01}, efficiency_of}, largest);
  panel.draw_axes();
  panel.draw_ideal(1, true, "ideal: 100 %");
  for (std::size_t i = 0; i < chart.series.size(); ++i) panel.draw_series(i);
  page.close();
}

Table data_of(const ScalingChart& chart) {
  Table table{"Throughput and efficiency: median, least and most of the repetitions",
              {{"strategy", true},
               {"devices"},
               {"samples/s"},
               {"least"},
               {"most"},
               {"efficiency, %"},
               {"repetitions"}},
              {},
              {}};
  for (const ScalingPoint& point : chart.points) {
    const Spread& rate = point.samples_per_s;
    std::string devices = std::to_string(point.devices) + (point.oversubscribed ? "*" : "");
    std::vector<Cell> row = {cell(chart.series[point.series].name),
                             cell(point.devices, std::move(devices))};
    for (const double value : {rate.median, rate.min, rate.max}) {
      row.push_back(cell(value, number(value)));
    }
    row.push_back(point.efficiency
                      ? cell(point.efficiency->median, fixed(100 * point.efficiency->median, 1))
                      : missing_cell());
    row.push_back(cell(rate.count, std::to_string(rate.count)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

void write_scaling(Markup& page, const ScalingChart& chart) {
  if (!chart.empty_reason.empty()) return write_no_picture(page, "Scaling", chart.empty_reason);
  ChartCaption caption = chart.caption;
  if (!chart.ideals.empty()) caption.notes.emplace_back("dotted line: perfect scaling");
  const bool hollow = std::ranges::any_of(chart.points, &ScalingPoint::oversubscribed);
  if (hollow) caption.notes.emplace_back("hollow markers: oversubscribed");
  write_picture(page, {"scaling", "Scaling", caption, line_legend(chart.series),
                       [&](Markup& to) {
                         draw_throughput(to, chart);
                         draw_efficiency(to, chart);
                       },
                       data_of(chart)});
}

}  // namespace ddpbench::report::html
