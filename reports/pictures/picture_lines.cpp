// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Plots of lines: throughput and efficiency over the number of devices, where above eight devices
// the axes of devices and of throughput are logarithmic, so that powers of two are evenly spaced;
// and test accuracy and training loss over the time or the steps of training.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "reports/metrics/metrics.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kPlotHeight = 234, kAbovePlot = 30, kBelowPlot = 36;
constexpr int kLinearDevices = 8;
constexpr double kMargin = 0.07;     // left and right of the points, of the range of devices
constexpr double kTickGap = 26;      // the least gap between labels of devices
constexpr double kDodge = 3;         // shifts error bars of one place apart
constexpr double kMostOverData = 4;  // the ideal line leaves the picture above this multiple

// The value that a panel shows.
struct Quantity {
  std::string name;  // above its axis
  Unit unit;
  std::optional<Spread> (*of)(const ScalingPoint& point);
};

std::optional<Spread> rate_of(const ScalingPoint& point) { return point.samples_per_s; }
std::optional<Spread> efficiency_of(const ScalingPoint& point) { return point.efficiency; }

struct Range {
  double least = 0, most = 0;
};

Range devices_of(const ScalingChart& chart) {
  const auto [least, most] = std::ranges::minmax_element(chart.points, {}, &ScalingPoint::devices);
  return {static_cast<double>(least->devices), static_cast<double>(most->devices)};
}

// The range of the measured rates, without the ideals.
Range rates_of(const ScalingChart& chart) {
  Range range{chart.points.front().samples_per_s.min, 0};
  for (const ScalingPoint& point : chart.points) {
    range.least = std::min(range.least, point.samples_per_s.min);
    range.most = std::max(range.most, point.samples_per_s.max);
  }
  return range;
}

bool is_logarithmic(const ScalingChart& chart) {
  return devices_of(chart).most > kLinearDevices && rates_of(chart).least > 0;
}

class ScalingPanel {
 public:
  ScalingPanel(const ScalingChart& chart, Quantity quantity, Axis axis, const Medium& medium)
      : chart_(chart),
        quantity_(std::move(quantity)),
        axis_(std::move(axis)),
        width_(medium.plot_width),
        area_{label_room(axis_), kAbovePlot, width_ - 4, kAbovePlot + medium.stretch * kPlotHeight},
        logarithmic_(is_logarithmic(chart)) {
    const auto [least, most] = devices_of(chart);
    const double first = place_of(least), last = place_of(most);
    const double margin = first == last ? 0.5 : kMargin * (last - first);
    first_ = first - margin;
    last_ = last + margin;
  }

  void draw_axes() {
    draw_y_axis(markup_, area_, axis_, quantity_.name);
    std::vector<int> counts;
    for (const ScalingPoint& point : chart_.points) counts.push_back(point.devices);
    std::ranges::sort(counts);
    counts.erase(std::ranges::unique(counts).begin(), counts.end());
    double free_from = -kTickGap;
    for (const int count : counts) {
      const double x = x_of(count);
      svg_line(markup_, {x, area_.bottom}, {x, area_.bottom + 4}, "axis");
      const std::string text = std::to_string(count);
      const double half = text_width(text) / 2;
      if (x - half < free_from) continue;
      free_from = x + std::max(half + kTickMargin, kTickGap / 2);
      svg_text(markup_, {std::min(x, width_ - half), area_.bottom + 17}, Anchor::middle, "tick",
               text);
    }
    svg_text(markup_, {area_.left + area_.width() / 2, area_.bottom + 33}, Anchor::middle, "tick",
             "devices");
  }

  // y = slope x devices, from the first shown number of devices to the edge of the picture.
  void draw_ideal(std::size_t entry, double slope, const std::string& tip) {
    const auto [least, most] = devices_of(chart_);
    if (slope <= 0) return;
    const double from = std::max(least, axis_.begin / slope);
    draw_ideal_line(
        entry, from, std::min(most, axis_.end / slope),
        [&](double devices) { return slope * devices; }, tip);
  }
  // A horizontal line.
  void draw_constant(std::size_t entry, double value, const std::string& tip) {
    const auto [least, most] = devices_of(chart_);
    draw_ideal_line(
        entry, least, most, [&](double) { return value; }, tip);
  }

  void draw_series(std::size_t series) {
    const auto middle = static_cast<double>(chart_.series.size() - 1) / 2;
    const double dodge = std::clamp((static_cast<double>(series) - middle) * kDodge, -9.0, 9.0);
    std::string line;
    open_entry(markup_, series, line_class(chart_.series[series]));
    for (const ScalingPoint& point : chart_.points) {
      const auto value = point.series == series ? quantity_.of(point) : std::nullopt;
      if (!value) continue;
      line += fmt::format("{}{} {}", line.empty() ? "M" : "L", decimal(x_of(point.devices) + dodge),
                          decimal(y_of(value->median)));
    }
    if (!line.empty()) svg_path(markup_, line, "series");
    for (const ScalingPoint& point : chart_.points) {
      const auto value = point.series == series ? quantity_.of(point) : std::nullopt;
      if (value) draw_point(point, *value, x_of(point.devices) + dodge);
    }
    markup_.close();
  }

  Panel finish(SvgName name) {
    return {std::move(name), width_, area_.bottom + kBelowPlot, markup_.take()};
  }

 private:
  static constexpr double kTickMargin = 6;

  double place_of(double devices) const { return logarithmic_ ? std::log2(devices) : devices; }
  double x_of(double devices) const {
    return area_.left + area_.width() * (place_of(devices) - first_) / (last_ - first_);
  }
  double y_of(double value) const {
    return area_.bottom - area_.height() * std::clamp(axis_.position(value), 0.0, 1.0);
  }

  // A straight line in either kind of axes; a short one for a single number of devices.
  template <typename Value>
  void draw_ideal_line(std::size_t entry, double from, double to, Value value,
                       const std::string& tip) {
    if (to < from) return;
    const double stub = to == from ? kTickGap : 0;
    open_entry(markup_, entry, {});
    svg_path(markup_,
             fmt::format("M{} {}L{} {}", decimal(x_of(from) - stub), decimal(y_of(value(from))),
                         decimal(x_of(to) + stub), decimal(y_of(value(to)))),
             "ideal", tip);
    markup_.close();
  }

  void draw_point(const ScalingPoint& point, const Spread& value, double x) {
    if (value.count > 1) {
      svg_path(markup_, error_bar(x, y_of(value.min), y_of(value.max)), "error");
    }
    std::string tip = fmt::format(
        "{} on {}{}\n{}", chart_.series[point.series].name, counted(point.devices, "device"),
        point.oversubscribed ? ", oversubscribed" : "", with_unit(value.median, quantity_.unit));
    if (value.count > 1) {
      tip += fmt::format("\n{} repetitions: {} to {}", value.count,
                         number(value.min / quantity_.unit.size),
                         number(value.max / quantity_.unit.size));
    }
    svg_path(markup_,
             marker_path(line_marker(chart_.series[point.series]), {x, y_of(value.median)}),
             point.oversubscribed ? "marker hollow" : "marker", tip);
  }

  Markup markup_;
  const ScalingChart& chart_;
  Quantity quantity_;
  Axis axis_;
  double width_;
  Area area_;
  bool logarithmic_;
  double first_ = 0, last_ = 1;  // ends of the axis of devices, as of place_of()
};

Axis rate_axis(const ScalingChart& chart) {
  const Range data = rates_of(chart);
  double ideal = 0;
  for (const auto& one : chart.ideals) ideal = std::max(ideal, one.samples_per_s_per_device);
  ideal *= devices_of(chart).most;
  if (is_logarithmic(chart)) {
    return log_axis(data.least, std::max(data.most, ideal), rate_unit(), 7);
  }
  return axis_to(std::max(data.most, std::min(ideal, kMostOverData * data.most)), rate_unit(), 5);
}

Panel throughput_panel(const ScalingChart& chart, const Medium& medium) {
  ScalingPanel panel(chart, {"samples/s", rate_unit(), rate_of}, rate_axis(chart), medium);
  panel.draw_axes();
  for (std::size_t i = 0; i < chart.ideals.size(); ++i) {
    const double rate = chart.ideals[i].samples_per_s_per_device;
    panel.draw_ideal(
        chart.series.size() + i, rate,
        fmt::format("{}: {} for each device", chart.ideals[i].name, with_unit(rate, rate_unit())));
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) panel.draw_series(i);
  return panel.finish(
      {"svg-throughput", "Throughput over devices",
       "A line for each strategy; the dotted line is perfect scaling. " + chart.caption.title});
}

// Nothing where no point has an efficiency; the notes say why.
std::optional<Panel> efficiency_panel(const ScalingChart& chart, const Medium& medium) {
  double largest = 0;
  for (const ScalingPoint& point : chart.points) {
    if (point.efficiency) largest = std::max({largest, 1.0, point.efficiency->max});
  }
  if (largest == 0) return std::nullopt;
  const Unit percent{"%", 0.01};
  ScalingPanel panel(chart, {"efficiency, %", percent, efficiency_of}, axis_to(largest, percent, 5),
                     medium);
  panel.draw_axes();
  panel.draw_constant(chart.series.size(), 1, "ideal: 100 %");
  for (std::size_t i = 0; i < chart.series.size(); ++i) panel.draw_series(i);
  return panel.finish({"svg-efficiency", "Scaling efficiency over devices",
                       "A line for each strategy; the dotted line at 100 % is perfect scaling. " +
                           chart.caption.title});
}

constexpr double kCurveHeight = 234, kAboveCurves = 30, kBelowCurves = 36;
constexpr int kCurveTicks = 5;

// What a panel shows over the time.
struct Curve {
  std::string name;  // above its axis
  Unit unit;
  std::optional<Spread> (*of)(const AccuracyPoint& point);
};

std::optional<Spread> accuracy_of(const AccuracyPoint& point) { return point.test_accuracy; }
std::optional<Spread> loss_of(const AccuracyPoint& point) { return point.train_loss; }

double most_training(const AccuracyChart& chart) {
  double most = 0;
  for (const AccuracyPoint& point : chart.points) most = std::max(most, point.trained.max);
  return most;
}

Unit training_unit(const AccuracyChart& chart) {
  return chart.axis == CourseAxis::seconds ? time_unit(most_training(chart)) : Unit{"steps", 1};
}

class CurvesPanel {
 public:
  CurvesPanel(const AccuracyChart& chart, Curve curve, Axis axis, const Medium& medium)
      : chart_(chart),
        curve_(std::move(curve)),
        axis_(std::move(axis)),
        unit_(training_unit(chart)),
        training_(axis_to(most_training(chart), unit_, kCurveTicks)),
        width_(medium.plot_width),
        area_{label_room(axis_), kAboveCurves, width_ - 12,
              kAboveCurves + medium.stretch * kCurveHeight} {
    draw_y_axis(markup_, area_, axis_, curve_.name);
    draw_x_axis(markup_, area_, training_, "training, " + unit_.name);
  }

  void draw_target(std::size_t entry, double value, const std::string& tip) {
    open_entry(markup_, entry, {});
    svg_path(
        markup_,
        fmt::format("M{} {}H{}", decimal(area_.left), decimal(y_of(value)), decimal(area_.right)),
        "ideal", tip);
    markup_.close();
  }

  // The line goes through `line`, or through the ends of the epochs where that is empty.
  void draw_series(std::size_t series, const std::vector<CoursePoint>& line = {}) {
    std::string path;
    const auto extend = [&](double trained, double value) {
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", decimal(x_of(trained)),
                          decimal(y_of(value)));
    };
    open_entry(markup_, series, line_class(chart_.series[series]));
    for (const CoursePoint& point : line) extend(point.trained, point.train_loss);
    if (line.empty()) {
      for_points(series, [&](const AccuracyPoint& point, const Spread& value) {
        extend(point.trained.median, value.median);
      });
    }
    if (!path.empty()) svg_path(markup_, path, "series");
    for_points(series,
               [&](const AccuracyPoint& point, const Spread& value) { draw_point(point, value); });
    markup_.close();
  }

  Panel finish(SvgName name) {
    return {std::move(name), width_, area_.bottom + kBelowCurves, markup_.take()};
  }

 private:
  double x_of(double trained) const {
    return area_.left + area_.width() * std::clamp(training_.position(trained), 0.0, 1.0);
  }
  double y_of(double value) const {
    return area_.bottom - area_.height() * std::clamp(axis_.position(value), 0.0, 1.0);
  }

  template <typename Visit>
  void for_points(std::size_t series, Visit visit) const {
    for (const AccuracyPoint& point : chart_.points) {
      const auto value = point.series == series ? curve_.of(point) : std::nullopt;
      if (value) visit(point, *value);
    }
  }

  void draw_point(const AccuracyPoint& point, const Spread& value) {
    const Spread& trained = point.trained;
    const double x = x_of(trained.median), y = y_of(value.median);
    std::string tip = fmt::format("{}\n{}, {}\n{}", chart_.series[point.series].name,
                                  counted(point.epochs, "epoch"), with_unit(trained.median, unit_),
                                  words_of(value.median));
    if (trained.count > 1) {
      svg_path(markup_, error_bar_across(y, x_of(trained.min), x_of(trained.max)), "error");
      tip += fmt::format("\n{} repetitions: {} to {}", trained.count, with_unit(trained.min, unit_),
                         with_unit(trained.max, unit_));
    }
    if (value.count > 1) {
      svg_path(markup_, error_bar(x, y_of(value.min), y_of(value.max)), "error");
      tip += fmt::format(", {} to {}", words_of(value.min), words_of(value.max));
    }
    svg_path(markup_, marker_path(line_marker(chart_.series[point.series]), {x, y}),
             point.oversubscribed ? "marker hollow" : "marker", tip);
  }

  std::string words_of(double value) const {
    return curve_.unit.name.empty() ? number(value) : with_unit(value, curve_.unit);
  }

  Markup markup_;
  const AccuracyChart& chart_;
  Curve curve_;
  Axis axis_;
  Unit unit_;
  Axis training_;
  double width_;
  Area area_;
};

Panel accuracy_panel(const AccuracyChart& chart, const Medium& medium) {
  const Unit percent{"%", 0.01};
  CurvesPanel panel(chart, {"test accuracy, %", percent, accuracy_of},
                    axis_between(chart.shown_from, 1, percent, kCurveTicks), medium);
  for (std::size_t i = 0; i < chart.targets.size(); ++i) {
    panel.draw_target(chart.series.size() + i, chart.targets[i],
                      "--until-accuracy: " + accuracy_words(chart.targets[i]));
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) panel.draw_series(i);
  return panel.finish({"svg-accuracy", "Test accuracy over training",
                       "A line for each setting with a point for each epoch; dotted lines are "
                       "accuracies that end training. " +
                           chart.caption.title});
}

// Nothing where no epoch has a loss that is a number.
std::optional<Panel> loss_panel(const AccuracyChart& chart, const Medium& medium) {
  double largest = -1;
  for (const AccuracyPoint& point : chart.points) {
    if (point.train_loss) largest = std::max(largest, point.train_loss->max);
  }
  std::vector<std::vector<CoursePoint>> lines(chart.series.size());
  for (const CoursePoint& point : chart.losses) {
    largest = std::max(largest, point.train_loss);
    lines[point.series].push_back(point);
  }
  if (largest < 0) return std::nullopt;
  const Unit plain{"", 1};
  CurvesPanel panel(chart, {"train loss", plain, loss_of}, axis_to(largest, plain, kCurveTicks),
                    medium);
  for (std::size_t i = 0; i < chart.series.size(); ++i) panel.draw_series(i, lines[i]);
  return panel.finish(
      {"svg-loss", "Training loss over training",
       "A line for each setting with a point for each epoch. " + chart.caption.title});
}

}  // namespace

Picture scaling_picture(const ScalingChart& chart, const Medium& medium) {
  Picture picture{"scaling", "Scaling", chart.caption, line_legend(chart.series), {}};
  for (const auto& ideal : chart.ideals) {
    picture.legend.push_back({ideal.name, {}, LegendEntry::Mark::dotted});
  }
  picture.panels.push_back(throughput_panel(chart, medium));
  if (auto panel = efficiency_panel(chart, medium)) picture.panels.push_back(*std::move(panel));
  std::vector<std::string>& notes = picture.caption.notes;
  if (std::ranges::any_of(chart.points, &ScalingPoint::oversubscribed)) {
    notes.emplace_back("hollow markers: oversubscribed");
  }
  if (is_logarithmic(chart)) notes.emplace_back("devices and samples/s are on logarithmic axes");
  return picture;
}

Picture accuracy_picture(const AccuracyChart& chart, const Medium& medium) {
  Picture picture{"accuracy", "Accuracy", chart.caption, line_legend(chart.series), {}};
  for (const double target : chart.targets) {
    picture.legend.push_back({"until " + accuracy_words(target), {}, LegendEntry::Mark::dotted});
  }
  picture.panels.push_back(accuracy_panel(chart, medium));
  if (auto panel = loss_panel(chart, medium)) picture.panels.push_back(*std::move(panel));
  if (std::ranges::any_of(chart.points, &AccuracyPoint::oversubscribed)) {
    picture.caption.notes.emplace_back("hollow markers: oversubscribed");
  }
  return picture;
}

}  // namespace ddpbench::report::pictures
