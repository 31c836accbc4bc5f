// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Plots of lines: throughput and efficiency over the number of devices, accuracy and loss over
// training, bus bandwidth over size, and steps over commits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/text.h"
#include "reports/metrics/history.h"
#include "reports/metrics/metrics.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kPlotHeight = 210, kNameLine = 22, kAbovePlot = 30, kBelowPlot = 36;
constexpr double kStub = 26, kTickGap = 8;  // half of a guide of one place; between labels
constexpr double kMargin = 0.06;            // left and right of the places, of their range
constexpr int kTicks = 5, kLogTicks = 7;

const Unit kPercent{"%", 0.01}, kRate{"samples/s", 1}, kGigabytes{"GB/s", 1};

// A value at a place of a line.
struct Mark {
  double x = 0;
  Spread y;  // with error bars where it is of several
  std::string tip;
  bool hollow = false;
};

struct Line {
  std::size_t entry = 0;  // of the legend
  std::string classes;    // for colour and dash
  std::size_t marker = 0;
  std::vector<Mark> marks;
  std::vector<Point> path = {};  // values; empty: through the marks
  double dodge = 0;              // to the right, so that error bars of one place are told apart
};

// A horizontal axis of places with names.
Axis axis_of(const std::map<double, std::string>& places, bool logarithmic) {
  Axis axis{places.begin()->first, places.rbegin()->first, logarithmic, {}, {}};
  const bool single = axis.begin == axis.end;
  if (logarithmic) {
    const double margin = single ? 2 : std::pow(axis.end / axis.begin, kMargin);
    axis.begin /= margin, axis.end *= margin;
  } else {
    const double margin = single ? 0.5 : kMargin * (axis.end - axis.begin);
    axis.begin -= margin, axis.end += margin;
  }
  for (const auto& [place, name] : places) {
    axis.ticks.push_back(place);
    axis.labels.push_back(name);
  }
  return axis;
}

// One panel; draw from the back to the front.
class Plot {
 public:
  // `name`: above the plot; empty: none.
  Plot(const Medium& medium, Axis x, Axis y, const std::string& y_title,
       const std::string& name = {})
      : x_(std::move(x)), y_(std::move(y)), width_(medium.plot_width) {
    const double top = kAbovePlot + (name.empty() ? 0 : kNameLine);
    area_ = {label_room(y_), top, width_ - 14, top + medium.stretch * kPlotHeight};
    if (!name.empty()) svg_text(markup_, {0, 14}, Anchor::start, "row", fitted(name, width_));
    draw_y_axis(markup_, area_, y_, y_title);
  }

  // Lines with labels at round values.
  void draw_values(const std::string& title) { draw_x_axis(markup_, area_, x_, title); }

  // Short strokes at places, with names as far as there is room.
  void draw_places(const std::string& title) {
    double free_from = 0;
    for (std::size_t i = 0; i < x_.ticks.size(); ++i) {
      const double x = x_of(x_.ticks[i]), half = text_width(x_.labels[i]) / 2;
      svg_line(markup_, {x, area_.bottom}, {x, area_.bottom + 4}, "axis");
      const double at = std::clamp(x, half, width_ - half);
      if (x_.labels[i].empty() || at - half < free_from) continue;
      free_from = at + half + kTickGap;
      svg_text(markup_, {at, area_.bottom + 17}, Anchor::middle, "tick", x_.labels[i]);
    }
    svg_text(markup_, {area_.left + area_.width() / 2, area_.bottom + 33}, Anchor::middle, "tick",
             title);
  }

  // What values are compared with, as a dotted line.
  void draw_guide(std::size_t entry, const std::string& classes, const char* shape,
                  const std::vector<Point>& points, const std::string& tip) {
    if (points.empty()) return;
    std::string path;
    for (const Point& point : points) add_to(path, {x_of(point.x), y_of(point.y)});
    if (const Point& only = points.front(); only.x == points.back().x) {
      path = fmt::format("M{} {}h{}", decimal(x_of(only.x) - kStub), decimal(y_of(only.y)),
                         decimal(2 * kStub));
    }
    open_entry(markup_, entry, classes);
    svg_path(markup_, path, shape, tip);
    markup_.close();
  }

  void draw(const Line& line) {
    std::string path;
    for (const Point& point : line.path) {
      add_to(path, {x_of(point.x) + line.dodge, y_of(point.y)});
    }
    for (const Mark& mark : line.marks) {
      if (line.path.empty()) add_to(path, {x_of(mark.x) + line.dodge, y_of(mark.y.median)});
    }
    if (path.empty()) return;
    open_entry(markup_, line.entry, line.classes);
    svg_path(markup_, path, "series");
    for (const Mark& mark : line.marks) draw(line, mark);
    markup_.close();
  }

  Panel finish(SvgName name) {
    return {std::move(name), width_, area_.bottom + kBelowPlot, markup_.take(), values_};
  }

 private:
  static void add_to(std::string& path, Point at) {
    path += fmt::format("{}{} {}", path.empty() ? "M" : "L", decimal(at.x), decimal(at.y));
  }
  double x_of(double value) const {
    return area_.left + area_.width() * std::clamp(x_.position(value), 0.0, 1.0);
  }
  double y_of(double value) const {
    return area_.bottom - area_.height() * std::clamp(y_.position(value), 0.0, 1.0);
  }

  void draw(const Line& line, const Mark& mark) {
    const double x = x_of(mark.x) + line.dodge, y = y_of(mark.y.median);
    if (mark.y.count > 1) {
      svg_path(markup_, error_bar(x, y_of(mark.y.min), y_of(mark.y.max)), "error");
    }
    svg_path(markup_, marker_path(line.marker, {x, y}), mark.hollow ? "marker hollow" : "marker",
             mark.tip);
    values_.push_back(mark.tip);
  }

  Markup markup_;
  std::vector<std::string> values_;
  Axis x_, y_;
  double width_;
  Area area_;
};

Line line_of(const Chart& chart, std::size_t series) {
  return {series, line_class(chart.series[series]), line_marker(chart.series[series]), {}};
}

// "3 repetitions: 5000 to 5500", below other words of a tip.
std::string spread_text(const Spread& spread, const char* noun, const Unit& unit) {
  if (spread.count == 1) return {};
  return fmt::format("\n{} {}: {} to {}", spread.count, noun, number(spread.min / unit.size),
                     number(spread.max / unit.size));
}

// ---- scaling: above eight devices on logarithmic axes, which space powers of two evenly ----

struct ScalingAxes {
  double most = 0;  // devices
  bool logarithmic = false;
  Axis devices, rate;
};

ScalingAxes axes_of(const ScalingChart& chart) {
  constexpr int kLinearDevices = 8;
  constexpr double kMostOverData = 4;  // the ideal line leaves the picture above this multiple
  std::map<double, std::string> counts;
  double least_rate = chart.points.front().samples_per_s.min, most_rate = 0;
  for (const ScalingPoint& point : chart.points) {
    counts[point.devices] = std::to_string(point.devices);
    least_rate = std::min(least_rate, point.samples_per_s.min);
    most_rate = std::max(most_rate, point.samples_per_s.max);
  }
  ScalingAxes axes;
  axes.most = counts.rbegin()->first;
  axes.logarithmic = axes.most > kLinearDevices && least_rate > 0;
  axes.devices = axis_of(counts, axes.logarithmic);
  const double ideal =
      largest(chart.ideals, 0.0, &ScalingChart::Ideal::samples_per_s_per_device) * axes.most;
  axes.rate =
      axes.logarithmic
          ? log_axis(least_rate, std::max(most_rate, ideal), kRate, kLogTicks)
          : axis_to(std::max(most_rate, std::min(ideal, kMostOverData * most_rate)), kRate, kTicks);
  return axes;
}

template <typename Value>
void draw_devices(Plot& plot, const ScalingChart& chart, const Unit& unit, Value value_of) {
  plot.draw_places("devices");
  const auto middle = static_cast<double>(chart.series.size() - 1) / 2;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    Line line = line_of(chart, i);
    line.dodge = std::clamp(3 * (static_cast<double>(i) - middle), -9.0, 9.0);
    for (const ScalingPoint& point : chart.points) {
      const std::optional<Spread> value = point.series == i ? value_of(point) : std::nullopt;
      if (!value) continue;
      const std::string tip =
          fmt::format("{} on {}{}\n{}{}", chart.series[i].name, counted(point.devices, "device"),
                      point.oversubscribed ? ", oversubscribed" : "",
                      with_unit(value->median, unit), spread_text(*value, "repetitions", unit));
      line.marks.push_back({static_cast<double>(point.devices), *value, tip, point.oversubscribed});
    }
    plot.draw(line);
  }
}

Panel throughput_panel(const ScalingChart& chart, const ScalingAxes& axes, const Medium& medium) {
  Plot plot(medium, axes.devices, axes.rate, "samples/s");
  for (std::size_t i = 0; i < chart.ideals.size(); ++i) {
    const double rate = chart.ideals[i].samples_per_s_per_device;
    // From the first shown number of devices to the edge of the picture.
    const double from = std::max(axes.devices.ticks.front(), axes.rate.begin / rate);
    const double to = std::min(axes.most, axes.rate.end / rate);
    if (rate <= 0 || to < from) continue;
    plot.draw_guide(
        chart.series.size() + i, {}, "ideal", {{from, rate * from}, {to, rate * to}},
        fmt::format("{}: {} for each device", chart.ideals[i].name, with_unit(rate, kRate)));
  }
  draw_devices(plot, chart, kRate, [](const ScalingPoint& point) -> std::optional<Spread> {
    return point.samples_per_s;
  });
  return plot.finish(
      {"svg-throughput", "Throughput over devices",
       "A line for each strategy; the dotted line is perfect scaling. " + chart.caption.title});
}

// Nothing where no point has an efficiency; the notes say why.
void add_efficiency(const ScalingChart& chart, const ScalingAxes& axes, const Medium& medium,
                    Picture& picture) {
  double largest = 0;
  for (const ScalingPoint& point : chart.points) {
    if (point.efficiency) largest = std::max({largest, 1.0, point.efficiency->max});
  }
  if (largest == 0) return;
  Plot plot(medium, axes.devices, axis_to(largest, kPercent, kTicks), "efficiency, %");
  plot.draw_guide(chart.series.size(), {}, "ideal",
                  {{axes.devices.ticks.front(), 1}, {axes.most, 1}}, "ideal: 100 %");
  draw_devices(plot, chart, kPercent, [](const ScalingPoint& point) { return point.efficiency; });
  picture.panels.push_back(
      plot.finish({"svg-efficiency", "Scaling efficiency over devices",
                   "A line for each strategy; the dotted line at 100 % is perfect scaling. " +
                       chart.caption.title}));
}

// ---- accuracy ----

using TrainingAxis = std::pair<Unit, Axis>;
TrainingAxis training_axis(const AccuracyChart& chart) {
  const double most =
      largest(chart.points, 0.0, [](const auto& point) { return point.trained.max; });
  const char* const name = chart.axis == CourseAxis::samples ? "samples" : "steps";
  const Unit unit = chart.axis == CourseAxis::seconds ? time_unit(most) : Unit{name, 1};
  return {unit, axis_to(most, unit, kTicks)};
}

// `words`: of a value. The marks are the ends of the epochs.
template <typename Value, typename Words>
Line epochs_line(const AccuracyChart& chart, std::size_t series, const Unit& unit, Value value_of,
                 Words words) {
  Line line = line_of(chart, series);
  for (const AccuracyPoint& point : chart.points) {
    const std::optional<Spread> value = point.series == series ? value_of(point) : std::nullopt;
    if (!value) continue;
    const Spread& trained = point.trained;
    std::string tip =
        fmt::format("{}\n{}, {}\n{}", chart.series[series].name, counted(point.epochs, "epoch"),
                    with_unit(trained.median, unit), words(value->median));
    if (trained.count > 1) {
      tip += fmt::format("\n{} repetitions: {} to {}, {} to {}", trained.count,
                         with_unit(trained.min, unit), with_unit(trained.max, unit),
                         words(value->min), words(value->max));
    }
    line.marks.push_back({trained.median, *value, tip, point.oversubscribed});
  }
  return line;
}

Panel accuracy_panel(const AccuracyChart& chart, const TrainingAxis& training,
                     const Medium& medium) {
  Plot plot(medium, training.second, axis_over(chart.shown_from, 1, kPercent, kTicks),
            fmt::format("test {}, %", chart.metric()));
  plot.draw_values("training, " + training.first.name);
  for (std::size_t i = 0; i < chart.targets.size(); ++i) {
    const double target = chart.targets[i];
    plot.draw_guide(chart.series.size() + i, {}, "ideal",
                    {{0, target}, {training.second.end, target}},
                    "until " + accuracy_words(target));
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    plot.draw(epochs_line(
        chart, i, training.first,
        [](const AccuracyPoint& point) -> std::optional<Spread> { return point.test_accuracy; },
        [](double value) { return with_unit(value, kPercent); }));
  }
  return plot.finish({"svg-accuracy", fmt::format("Test {} over training", chart.metric()),
                      "A line for each setting with a point for each epoch; dotted lines end "
                      "training. " +
                          chart.caption.title});
}

// Nothing where no epoch has a loss that is a number.
void add_loss(const AccuracyChart& chart, const TrainingAxis& training, const Medium& medium,
              Picture& picture) {
  double largest = -1;
  for (const AccuracyPoint& point : chart.points) {
    if (point.train_loss) largest = std::max(largest, point.train_loss->max);
  }
  std::vector<std::vector<Point>> paths(chart.series.size());
  for (const CoursePoint& point : chart.losses) {
    largest = std::max(largest, point.train_loss);
    paths[point.series].push_back({point.trained, point.train_loss});
  }
  if (largest < 0) return;
  Plot plot(medium, training.second, axis_to(largest, {"", 1}, kTicks), "train loss");
  plot.draw_values("training, " + training.first.name);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    Line line = epochs_line(
        chart, i, training.first, [](const AccuracyPoint& point) { return point.train_loss; },
        number);
    line.path = std::move(paths[i]);
    plot.draw(line);
  }
  picture.panels.push_back(
      plot.finish({"svg-loss", "Training loss over training",
                   "A line for each setting with a point for each epoch. " + chart.caption.title}));
}

// ---- bandwidth: all panels have the same logarithmic axes ----

// Of bytes and of rates.
std::pair<Axis, Axis> axes_of(const BandwidthChart& chart) {
  std::map<double, std::string> sizes;
  double least = chart.points.front().gb_per_s.min, most = 0;
  for (const BandwidthPoint& point : chart.points) {
    sizes[static_cast<double>(point.bytes)] = size_text(point.bytes);
    const double bound = point.bound_gb_per_s.value_or(point.gb_per_s.min);
    least = std::min({least, point.gb_per_s.min, bound});
    most = std::max({most, point.gb_per_s.max, bound});
  }
  return {axis_of(sizes, true), log_axis(least, most, kGigabytes, kLogTicks)};
}

Panel bandwidth_panel(const BandwidthChart& chart, std::size_t operation,
                      const std::pair<Axis, Axis>& axes, const Medium& medium) {
  const std::string& name = chart.operations[operation];
  Plot plot(medium, axes.first, axes.second, "bus bandwidth, GB/s", name);
  plot.draw_places("size of the buffer");
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    Line line = line_of(chart, i);
    std::vector<Point> bounds;
    for (const BandwidthPoint& point : chart.points) {
      if (point.panel != operation || point.series != i) continue;
      const auto bytes = static_cast<double>(point.bytes);
      const Spread& rate = point.gb_per_s;
      std::string tip = fmt::format(
          "{}, {}\n{}{}\n{}{}", name, chart.series[i].name, size_text(point.bytes),
          point.oversubscribed ? ", oversubscribed" : "", with_unit(rate.median, kGigabytes),
          spread_text(rate, "measurements", kGigabytes));
      if (point.bound_gb_per_s) {
        bounds.push_back({bytes, *point.bound_gb_per_s});
        tip +=
            fmt::format("\n{:.1f} % of the bound of {}", 100 * rate.median / *point.bound_gb_per_s,
                        with_unit(*point.bound_gb_per_s, kGigabytes));
      }
      line.marks.push_back({bytes, rate, tip, point.oversubscribed});
    }
    plot.draw_guide(chart.series.size(), line.classes, "bound", bounds,
                    "bound: " + chart.series[i].name);
    plot.draw(line);
  }
  return plot.finish(
      {fmt::format("svg-bandwidth-{}", operation), "Bus bandwidth of " + name,
       "A line for each world, over the bytes of the buffer; dotted: what memory allows. " +
           chart.caption.title});
}

// ---- commits ----

Panel history_panel(const History& history, std::size_t index) {
  const HistoryLine& line = history.lines[index];
  const Unit unit = time_unit(line.points.front().step_s);
  std::map<double, std::string> commits;  // with names where this setting was measured
  for (std::size_t i = 0; i < history.commits.size(); ++i) commits[static_cast<double>(i)];
  Line drawn{0, style_class(0), 0, {}};
  double most = 0, least = line.points.front().step_s;
  for (const HistoryPoint& point : line.points) {
    const std::string& commit = history.commits[point.commit].name;
    const auto place = static_cast<double>(point.commit);
    commits[place] = commit.substr(0, 7);
    const bool known = point.spread.low.value && point.spread.high.value;
    const Spread step = {point.step_s, point.spread.low.value.value_or(point.step_s),
                         point.spread.high.value.value_or(point.step_s),
                         known ? static_cast<int>(point.repetitions) : 1};
    least = std::min(least, step.min);
    most = std::max(most, step.max);
    drawn.marks.push_back({place, step,
                           fmt::format("{}\n{}{}", commit, with_unit(point.step_s, unit),
                                       known ? spread_text(step, "repetitions", unit)
                                             : "\n" + counted(point.repetitions, "repetition"))});
  }
  const double room = most > least ? (most - least) / 10 : most / 20;
  Plot plot(Medium::page, axis_of(commits, false),
            axis_over(std::max(0.0, least - room), most + room, unit, kTicks - 1),
            "step, " + unit.name, line.name);
  plot.draw_places("commit");
  plot.draw(drawn);
  return plot.finish(
      {fmt::format("svg-history-{}", index), line.name,
       "The median step time at each commit, with its interval over the repetitions."});
}

}  // namespace

Picture scaling_picture(const ScalingChart& chart, const Medium& medium) {
  Picture picture{chart, line_legend(chart.series)};
  for (const auto& ideal : chart.ideals) {
    picture.legend.push_back({ideal.name, {}, LegendEntry::Mark::dotted});
  }
  const ScalingAxes axes = axes_of(chart);
  picture.panels.push_back(throughput_panel(chart, axes, medium));
  add_efficiency(chart, axes, medium, picture);
  if (axes.logarithmic) {
    picture.caption.notes.emplace_back("devices and samples/s are on logarithmic axes");
  }
  return picture;
}

Picture accuracy_picture(const AccuracyChart& chart, const Medium& medium) {
  Picture picture{chart, line_legend(chart.series)};
  for (const double target : chart.targets) {
    picture.legend.push_back({"until " + accuracy_words(target), {}, LegendEntry::Mark::dotted});
  }
  const TrainingAxis training = training_axis(chart);
  picture.panels.push_back(accuracy_panel(chart, training, medium));
  add_loss(chart, training, medium, picture);
  return picture;
}

Picture bandwidth_picture(const BandwidthChart& chart, const Medium& medium) {
  Picture picture{chart, line_legend(chart.series)};
  const bool bounds = std::ranges::any_of(
      chart.points, [](const BandwidthPoint& point) { return point.bound_gb_per_s.has_value(); });
  if (bounds) picture.legend.push_back({"bound", {}, LegendEntry::Mark::dotted});
  const auto axes = axes_of(chart);
  for (std::size_t i = 0; i < chart.operations.size(); ++i) {
    picture.panels.push_back(bandwidth_panel(chart, i, axes, medium));
  }
  picture.caption.notes.emplace_back("logarithmic axes, the same in all panels");
  return picture;
}

Picture history_picture(const History& history) {
  Picture picture{{"commits", "Over commits", {}}};
  picture.caption.title = "Over commits: the median step of each setting";
  picture.caption.subtitle =
      counted(history.commits.size(), "commit") +
      (history.measured_order ? fmt::format(", from {} to {}", history.commits.front().started_at,
                                            history.commits.back().started_at)
                              : ", in the order in which their reports were given");
  for (std::size_t i = 0; i < history.lines.size(); ++i)
    picture.panels.push_back(history_panel(history, i));
  std::vector<std::string>& notes = picture.caption.notes;
  notes.emplace_back(
      "bars: 95 % interval of the median over the repetitions; least and most of fewer than 6");
  notes.emplace_back("axes do not begin at 0");
  return picture;
}

}  // namespace ddpbench::report::pictures
