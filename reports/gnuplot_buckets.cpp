// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A timeline of gradient buckets: a panel a group of runs, a row a rank and bucket.
#include <algorithm>

#include "reports/gnuplot_picture.h"

namespace ddpbench::report {
namespace {

constexpr double kPanel = 720, kRow = 20, kFont = 13, kKeyGap = 24;
constexpr double kTitle = 30, kAxis = 62;
constexpr double kMillisecond = 1e-3;
constexpr double kHalf = 0.36;

struct Phase {
  const char* name;
  double BucketBar::*begin;
  double BucketBar::*end;
  std::size_t style;  // of part_look
};
constexpr Phase kPhases[] = {
    {"queueing (ready)", &BucketBar::ready_s, &BucketBar::start_s, 5},
    {"waiting (started)", &BucketBar::start_s, &BucketBar::arrived_s, 3},
    {"transfer (all there)", &BucketBar::arrived_s, &BucketBar::end_s, 2},
};

std::string bars_of(GnuplotPicture& picture, const BucketGroup& group, const Phase& phase) {
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < group.bars.size(); ++i) {
    const double begin = group.bars[i].*phase.begin / kMillisecond;
    const double end = group.bars[i].*phase.end / kMillisecond;
    const double y = static_cast<double>(i);
    // Medians of its ends: a phase of no length may come out negative by a little.
    if (end > begin) rows.push_back({begin, y, begin, end, y - kHalf, y + kHalf});
  }
  const std::string look = part_look(phase.style);
  if (rows.empty()) return fmt::format("NaN with boxes {} title '{}'", look, phase.name);
  return fmt::format("{} using 1:2:3:4:5:6 with boxxyerror {} title '{}'", picture.data(rows), look,
                     phase.name);
}

void panel(GnuplotPicture& picture, const BucketGroup& group, const Box& box, double most_s,
           bool keyed) {
  picture.panel(box);
  picture.label(group.name, box.left, box.top - 12, kFont, "left");
  std::vector<std::string> tics;
  for (std::size_t i = 0; i < group.bars.size(); ++i) {
    tics.push_back(fmt::format("{} {}", gnuplot_tic(group.bars[i].label), i));
  }
  const double span = static_cast<double>(group.bars.size());
  picture.line(
      "set ytics ({}) scale 0; unset grid; set grid xtics linetype 1 linewidth 0.6 linecolor rgb "
      "'#D8D8D8'",
      fmt::join(tics, ", "));
  picture.line("set yrange [{}:-0.5]; set xrange [0:{:.9g}]; set xlabel 'ms since the step began'",
               span - 0.5, most_s / kMillisecond * 1.02);
  if (keyed) picture.key_at(box.right + kKeyGap, box.top);
  std::vector<std::string> elements;
  for (const Phase& phase : kPhases) elements.push_back(bars_of(picture, group, phase));
  const double step = group.step_s / kMillisecond;
  elements.push_back(picture.data({{step, -0.5}, {step, span - 0.5}}) +
                     " using 1:2 with lines linewidth 1.6 dashtype 2 linecolor rgb '#000000' "
                     "title 'median step'");
  picture.plot(elements);
}

double last_s(const BucketGroup& group) {
  double last = group.step_s;
  for (const BucketBar& bar : group.bars) last = std::max(last, bar.end_s);
  return last > 0 ? last : kMillisecond;
}

}  // namespace

std::string gnuplot_script(const BucketsChart& chart, const PictureOptions& options) {
  double left = 0, height = 0;
  for (const BucketGroup& group : chart.groups) {
    for (const BucketBar& bar : group.bars) {
      left = std::max(left, text_width(bar.label, kFont) + 24);
    }
    height += kTitle + kRow * static_cast<double>(group.bars.size()) + kAxis;
  }
  const double width = left + kPanel + kKeyGap + text_width("transfer (all there)", kFont) + 60;
  GnuplotPicture picture(chart.caption, options, width, std::max(height, 160.0));
  double y = 0;
  for (const BucketGroup& group : chart.groups) {
    const double top = y + kTitle, bottom = top + kRow * static_cast<double>(group.bars.size());
    panel(picture, group, {left, left + kPanel, top, bottom}, last_s(group), y == 0);
    y = bottom + kAxis;
  }
  return picture.finish();
}

}  // namespace ddpbench::report
