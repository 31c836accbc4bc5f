// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A timeline of gradient buckets: a panel a group of runs, a row a rank and bucket.
#include <algorithm>

#include "reports/charts/gnuplot_picture.h"

namespace ddpbench::report {
namespace {

constexpr double kPanel = 720, kRow = 20, kFont = 13, kKeyGap = 24;
constexpr double kTitle = 30, kAxis = 66;
constexpr double kMillisecond = 1e-3;
constexpr double kHalf = 0.36;
constexpr const char* kStepLook = "linewidth 1.6 dashtype 2 linecolor rgb '#000000'";

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

// Empty where no bucket has the phase.
std::string bars_of(GnuplotPicture& picture, const BucketGroup& group, const Phase& phase) {
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < group.bars.size(); ++i) {
    const double begin = group.bars[i].*phase.begin / kMillisecond;
    const double end = group.bars[i].*phase.end / kMillisecond;
    const double y = static_cast<double>(i);
    // Medians of its ends: a phase of no length may come out negative by a little.
    if (end > begin) rows.push_back({begin, y, begin, end, y - kHalf, y + kHalf});
  }
  if (rows.empty()) return {};
  return fmt::format("{} using 1:2:3:4:5:6 with boxxyerror {}", picture.data(rows),
                     part_look(phase.style));
}

void panel(GnuplotPicture& picture, const BucketGroup& group, const Box& box, double most_s) {
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
  std::vector<std::string> elements;
  for (const Phase& phase : kPhases) {
    std::string bars = bars_of(picture, group, phase);
    if (!bars.empty()) elements.push_back(std::move(bars));
  }
  const double step = group.step_s / kMillisecond;
  elements.push_back(picture.data({{step, -0.5}, {step, span - 0.5}}) + " using 1:2 with lines " +
                     kStepLook);
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
  std::vector<KeyEntry> entries;
  for (const Phase& phase : kPhases) {
    entries.push_back({{}, {}, part_look(phase.style), phase.name});
  }
  entries.push_back({kStepLook, {}, {}, "median step"});
  const double key = kTitle + kKeyLine * static_cast<double>(entries.size());
  GnuplotPicture picture(chart.caption, options, left + kPanel + kKeyGap + key_width(entries),
                         std::max(height, key));
  double y = 0;
  for (const BucketGroup& group : chart.groups) {
    const double top = y + kTitle, bottom = top + kRow * static_cast<double>(group.bars.size());
    panel(picture, group, {left, left + kPanel, top, bottom}, last_s(group));
    y = bottom + kAxis;
  }
  picture.key(left + kPanel + kKeyGap, kTitle, entries);
  return picture.finish();
}

}  // namespace ddpbench::report
