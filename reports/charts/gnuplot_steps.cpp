// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Step times: a row of box plots above, below a panel a group with the course over the run.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "reports/charts/gnuplot_picture.h"

namespace ddpbench::report {
namespace {

constexpr double kWidth = 1080, kRow = 26, kFont = 13;
constexpr double kAxis = 62, kTop = 12;
constexpr double kPanelHeight = 120, kPanelTop = 30, kPanelAxis = 58, kPanelLeft = 72, kRight = 34;
constexpr double kTicRoom = 24;  // beside the names of the boxes
constexpr std::size_t kColumns = 2;
constexpr double kMillisecond = 1e-3;
constexpr double kFarOut = 5;  // times the 95th percentile: then outliers would flatten the rest

using Rows = std::vector<std::vector<double>>;

// 1, 2 or 5 times a power of ten: at most five of it up to `most`, which is what a low panel holds.
double tic_step(double most) {
  if (!(most > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double factor : {1, 2, 5}) {
    if (most / (factor * power) <= 5) return factor * power;
  }
  return 10 * power;
}

// What an axis must hold, with a little room.
double slowest_ms(std::span<const StepGroup> groups) {
  double most = 0;
  for (const StepGroup& group : groups) most = std::max(most, group.time_s.max);
  return most > 0 ? 1.04 * most / kMillisecond : 1;
}

bool far_out(const StepGroup& group) {
  return group.time_s.min > 0 && group.time_s.max > kFarOut * group.time_s.p95;
}

void set_boxes(GnuplotPicture& picture, const StepsChart& chart, double left, double bottom) {
  picture.panel({left, kWidth - kRight, kTop, bottom});
  std::vector<std::string> tics;
  for (std::size_t i = 0; i < chart.groups.size(); ++i) {
    tics.push_back(fmt::format(
        "{} {}",
        gnuplot_tic(elided(chart.groups[i].name, left - kTicRoom,
                           [](std::string_view text) { return text_width(text, kFont); })),
        i));
  }
  picture.line(
      "set ytics ({}) scale 0; unset grid; set grid xtics linetype 1 linewidth 0.6 linecolor rgb "
      "'#D8D8D8'",
      fmt::join(tics, ", "));
  picture.line("set yrange [{}:-0.5]; set xlabel 'time of a step / ms'",
               static_cast<double>(chart.groups.size()) - 0.5);
  if (std::ranges::any_of(chart.groups, far_out)) {
    picture.line("set logscale x");
  } else {
    picture.line("set xrange [0:{:.9g}]", slowest_ms(chart.groups));
  }
}

void box_plots(GnuplotPicture& picture, const StepsChart& chart, double left, double bottom) {
  set_boxes(picture, chart, left, bottom);
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < chart.groups.size(); ++i) {
    const StepGroup& group = chart.groups[i];
    const StepStatistics& time = group.time_s;
    const double y = static_cast<double>(i), unit = kMillisecond;
    const std::string color = line_look(chart.series[group.series].style).color;
    elements.push_back(
        fmt::format("{} using 1:2:3:4 with vectors nohead linewidth 1.2 linecolor rgb '{}'",
                    picture.data({{time.p5 / unit, y, (time.p95 - time.p5) / unit, 0}}), color));
    elements.push_back(fmt::format(
        "{} using 1:2:3:4:5:6 with boxxyerror fillstyle solid border rgb '{}' linecolor rgb "
        "'#FFFFFF'",
        picture.data(
            {{group.q1_s / unit, y, group.q1_s / unit, group.q3_s / unit, y - 0.3, y + 0.3}}),
        color));
    elements.push_back(
        fmt::format("{} using 1:2:3:4 with vectors nohead linewidth 3 linecolor rgb '{}'",
                    picture.data({{time.median / unit, y - 0.3, 0, 0.6}}), color));
    elements.push_back(
        fmt::format("{} using 1:2 with points pointtype 2 pointsize 0.7 linecolor rgb '{}'",
                    picture.data({{time.min / unit, y}, {time.max / unit, y}}), color));
  }
  picture.plot(elements);
}

void course(GnuplotPicture& picture, const StepsChart& chart, const StepGroup& group,
            const Box& box) {
  picture.panel(box);
  const std::string steps = fmt::format(": {} steps", group.count);
  const auto measure = [](std::string_view text) { return text_width(text, kFont); };
  const double room = box.right - box.left - text_width(steps, kFont);
  picture.label(elided(group.name, room, measure) + steps, box.left, box.top - 12, kFont, "left");
  Rows rows;
  for (const StepBin& bin : group.bins) {
    rows.push_back({(bin.first_step + bin.last_step) / 2, bin.min_s / kMillisecond,
                    bin.median_s / kMillisecond, bin.max_s / kMillisecond});
  }
  const LineLook look = line_look(chart.series[group.series].style);
  picture.line("set ylabel 'ms' offset 1; set xrange [{}:{}]; set grid noxtics ytics",
               group.bins.front().first_step - 0.5, group.bins.back().last_step + 0.5);
  picture.line("set xlabel 'step' offset 0,0.4; set xtics autofreq");
  if (far_out(group)) {
    picture.line("set logscale y; set ytics autofreq");
  } else {
    const double most = slowest_ms({&group, 1});
    picture.line("set yrange [0:{:.9g}]; set ytics {:.9g}", most, tic_step(most));
  }
  const std::string data = picture.data(rows);
  picture.plot(
      {data + " using 1:2:4 with filledcurves fillstyle solid noborder linecolor rgb '#CCCCCC'",
       fmt::format("{} using 1:3 with lines linewidth 1.2 linecolor rgb '{}'", data, look.color)});
}

}  // namespace

std::string gnuplot_script(const StepsChart& chart, const PictureOptions& options) {
  double left = 0;
  for (const StepGroup& group : chart.groups) {
    left = std::max(left, text_width(group.name, kFont) + kTicRoom);
  }
  left = std::min(left, kWidth / 2);
  const double boxes = kTop + kRow * static_cast<double>(chart.groups.size());
  const double panel = kPanelTop + kPanelHeight + kPanelAxis;
  const std::size_t rows = (chart.groups.size() + kColumns - 1) / kColumns;
  GnuplotPicture picture(chart.caption, options, kWidth,
                         boxes + kAxis + static_cast<double>(rows) * panel + 8);
  box_plots(picture, chart, left, boxes);
  const double column = (kWidth - kRight) / static_cast<double>(kColumns);
  for (std::size_t i = 0; i < chart.groups.size(); ++i) {
    const double x = static_cast<double>(i % kColumns) * column;
    const double y = boxes + kAxis + static_cast<double>(i / kColumns) * panel + kPanelTop;
    course(picture, chart, chart.groups[i], {x + kPanelLeft, x + column, y, y + kPanelHeight});
  }
  return picture.finish();
}

}  // namespace ddpbench::report
