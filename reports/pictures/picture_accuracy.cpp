// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Test accuracy and, beside it, training loss over the time or the steps of training.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "reports/metrics/metrics.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {
namespace {

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
