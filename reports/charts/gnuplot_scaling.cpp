// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Throughput and efficiency over devices, side by side, with one key at the right.
#include <algorithm>
#include <cmath>

#include "reports/charts/gnuplot_picture.h"

namespace ddpbench::report {
namespace {

constexpr double kPanel = 440, kHeight = 440, kLeft = 92, kGap = 88, kKeyGap = 24, kFont = 13;
constexpr double kTop = 20;
constexpr int kLinearDevices = 8;  // beyond, powers of two are evenly spaced
constexpr double kDodge = 0.012;   // of the axis: lines in one place stay apart
constexpr double kPercent = 100;

struct Axis {
  int least = 1, most = 1;
  bool logarithmic() const { return most > kLinearDevices; }
};

Axis axis_of(const ScalingChart& chart) {
  const auto [least, most] = std::ranges::minmax_element(chart.points, {}, &ScalingPoint::devices);
  return {least->devices, most->devices};
}

// Where the point of a series stands: beside its number of devices by a little.
double dodged(const ScalingPoint& point, const ScalingChart& chart, const Axis& axis) {
  const double middle = (static_cast<double>(chart.series.size()) - 1) / 2;
  const double shift = kDodge * (static_cast<double>(point.series) - middle);
  if (axis.logarithmic()) return point.devices * std::pow(axis.most / axis.least, shift);
  return point.devices + shift * axis.most;
}

using Rows = std::vector<std::vector<double>>;

// The line of one series through all its points, and its markers: filled, and hollow where
// oversubscribed. `value` gives a point's spread, or none.
template <typename Value>
void add_series(GnuplotPicture& picture, const ScalingChart& chart, std::size_t series,
                const Axis& axis, Value value, std::vector<std::string>& elements) {
  Rows all, full, hollow;
  for (const ScalingPoint& point : chart.points) {
    const std::optional<Spread> spread = value(point);
    if (point.series != series || !spread) continue;
    const std::vector<double> row = {dodged(point, chart, axis), spread->median, spread->min,
                                     spread->max};
    all.push_back(row);
    (point.oversubscribed ? hollow : full).push_back(row);
  }
  if (all.empty()) return;
  const LineLook look = line_look(chart.series[series].style);
  elements.push_back(
      fmt::format("{} using 1:2 with lines linewidth 1.6 dashtype {} linecolor rgb '{}'",
                  picture.data(all), look.dash, look.color));
  const auto markers = [&](const Rows& rows, int marker) {
    if (rows.empty()) return;
    elements.push_back(
        fmt::format("{} using 1:2:3:4 with yerrorbars linewidth 1.4 pointsize 0.8 pointtype {} "
                    "linecolor rgb '{}'",
                    picture.data(rows), marker, look.color));
  };
  markers(full, look.marker);
  markers(hollow, look.hollow);
}

void add_ideals(const ScalingChart& chart, const Axis& axis, std::vector<std::string>& elements,
                GnuplotPicture& picture) {
  for (const auto& ideal : chart.ideals) {
    Rows rows;
    for (const double devices : {axis.least, axis.most}) {
      rows.push_back({devices, devices * ideal.samples_per_s_per_device});
    }
    elements.push_back(picture.data(rows) +
                       " using 1:2 with lines linewidth 1.2 dashtype 3 linecolor rgb '#666666'");
  }
}

void set_devices_axis(GnuplotPicture& picture, const ScalingChart& chart, const Axis& axis) {
  std::vector<int> devices;
  for (const ScalingPoint& point : chart.points) devices.push_back(point.devices);
  std::ranges::sort(devices);
  const auto repeated = std::ranges::unique(devices);
  devices.erase(repeated.begin(), repeated.end());
  picture.line("set xlabel 'devices'");
  if (axis.logarithmic()) {
    picture.line("set logscale x 2; set xrange [{}:{}]", 0.85 * axis.least, 1.18 * axis.most);
  } else {
    picture.line("set xrange [{}:{}]", 0, 1.1 * axis.most);
  }
  std::vector<std::string> tics;
  for (const int count : devices) tics.push_back(fmt::format("'{0}' {0}", count));
  if (devices.size() <= 12) picture.line("set xtics ({})", fmt::join(tics, ", "));
}

std::vector<KeyEntry> key_entries(const ScalingChart& chart) {
  std::vector<KeyEntry> entries;
  for (const ChartSeries& series : chart.series) {
    const LineLook look = line_look(series.style);
    entries.push_back(
        {fmt::format("linewidth 1.6 dashtype {} linecolor rgb '{}'", look.dash, look.color),
         fmt::format("pointtype {} pointsize 0.8 linecolor rgb '{}'", look.marker, look.color),
         {},
         series.name});
  }
  for (const auto& ideal : chart.ideals) {
    entries.push_back({"linewidth 1.2 dashtype 3 linecolor rgb '#666666'", {}, {}, ideal.name});
  }
  if (std::ranges::any_of(chart.points, &ScalingPoint::oversubscribed)) {
    entries.push_back(
        {{}, "pointtype 6 pointsize 0.8 linecolor rgb '#000000'", {}, "hollow: oversubscribed"});
  }
  return entries;
}

// From a little below the smallest rate (0 where linear) to a little above the largest.
void set_rate_axis(GnuplotPicture& picture, const ScalingChart& chart, const Axis& axis) {
  double least = chart.points.front().samples_per_s.min, most = 0;
  for (const ScalingPoint& point : chart.points) {
    least = std::min(least, point.samples_per_s.min);
    most = std::max(most, point.samples_per_s.max);
  }
  for (const auto& ideal : chart.ideals) {
    most = std::max(most, ideal.samples_per_s_per_device * axis.most);
  }
  if (axis.logarithmic() && least > 0) {
    picture.line("set logscale y; set yrange [{:.9g}:{:.9g}]", 0.8 * least, 1.25 * most);
  } else {
    picture.line("set yrange [0:{:.9g}]", most > 0 ? 1.06 * most : 1);
  }
}

void throughput_panel(GnuplotPicture& picture, const ScalingChart& chart, const Axis& axis) {
  picture.panel({kLeft, kLeft + kPanel, kTop, kHeight - 68});
  set_devices_axis(picture, chart, axis);
  picture.line("set ylabel 'samples / s'");
  set_rate_axis(picture, chart, axis);
  std::vector<std::string> elements;
  add_ideals(chart, axis, elements, picture);
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    add_series(
        picture, chart, s, axis,
        [](const ScalingPoint& point) { return std::optional(point.samples_per_s); }, elements);
  }
  picture.plot(elements);
}

std::optional<Spread> percent(const ScalingPoint& point) {
  if (!point.efficiency) return std::nullopt;
  Spread spread = *point.efficiency;
  for (double* value : {&spread.median, &spread.min, &spread.max}) *value *= kPercent;
  return spread;
}

void efficiency_panel(GnuplotPicture& picture, const ScalingChart& chart, const Axis& axis) {
  const double left = kLeft + kPanel + kGap;
  picture.panel({left, left + kPanel, kTop, kHeight - 68});
  set_devices_axis(picture, chart, axis);
  picture.line("set ylabel 'efficiency / %'");
  double most = kPercent;
  bool any = false;
  for (const ScalingPoint& point : chart.points) {
    if (const auto spread = percent(point)) {
      most = std::max(most, spread->max);
      any = true;
    }
  }
  picture.line("set yrange [0:{:.6g}]", 1.1 * most);
  std::vector<std::string> elements = {
      fmt::format("{} with lines linewidth 1.2 dashtype 3 linecolor rgb '#666666'", kPercent)};
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    add_series(picture, chart, s, axis, percent, elements);
  }
  if (!any)
    picture.label("no efficiency: see below", left + kPanel / 2, kHeight / 2, kFont, "center");
  picture.plot(elements);
}

}  // namespace

std::string gnuplot_script(const ScalingChart& chart, const PictureOptions& options) {
  const std::vector<KeyEntry> entries = key_entries(chart);
  const double key_left = kLeft + kPanel + kGap + kPanel + kKeyGap;
  GnuplotPicture picture(chart.caption, options, key_left + key_width(entries),
                         std::max(kHeight, kTop + kKeyLine * static_cast<double>(entries.size())));
  const Axis axis = axis_of(chart);
  throughput_panel(picture, chart, axis);
  efficiency_panel(picture, chart, axis);
  picture.key(key_left, kTop, entries);
  return picture.finish();
}

}  // namespace ddpbench::report
