// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Stacked bars, lying, so that their names have room: where step time goes, what memory holds.
#include <algorithm>
#include <numeric>

#include "reports/charts/gnuplot_picture.h"

namespace ddpbench::report {
namespace {

constexpr double kPanel = 700, kBar = 24, kGroupGap = 10, kFont = 13, kKeyGap = 24;
constexpr double kTop = 12, kAxis = 66;  // pixels above and below the bars
constexpr double kHalf = 0.4;            // of a bar's thickness, in bars

struct Unit {
  const char* axis;  // "step time / ms"
  double scale;
};

std::string name_of(const StackedBar& bar) {
  return bar.label.empty() ? bar.group : bar.group + ", " + bar.label;
}

// The middle of each bar from the top, in bars; groups stand a little apart.
std::vector<double> places(const StackedChart& chart) {
  std::vector<double> result;
  double y = 0.5;
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    const bool next = i > 0 && chart.bars[i].group != chart.bars[i - 1].group;
    if (next) y += kGroupGap / kBar;
    result.push_back(y);
    y += 1;
  }
  return result;
}

// Empty where no bar has the part.
std::string bars_of_part(GnuplotPicture& picture, const StackedChart& chart, std::size_t part,
                         const std::vector<double>& at, double scale) {
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    const auto& parts = chart.bars[i].parts;
    const double begin =
        std::accumulate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(part), 0.0);
    if (parts[part] <= 0) continue;
    rows.push_back({begin / scale, at[i], begin / scale, (begin + parts[part]) / scale,
                    at[i] - kHalf, at[i] + kHalf});
  }
  if (rows.empty()) return {};
  return fmt::format("{} using 1:2:3:4:5:6 with boxxyerror {}", picture.data(rows),
                     part_look(chart.part_styles[part]));
}

// A thick mark across each bar: what was measured of the whole.
std::string whole_marks(GnuplotPicture& picture, const StackedChart& chart,
                        const std::vector<double>& at, double scale) {
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    rows.push_back({chart.bars[i].whole / scale, at[i] - 0.48, 0, 0.96});
  }
  return picture.data(rows) +
         " using 1:2:3:4 with vectors nohead linewidth 3 linecolor rgb '#000000'";
}

std::vector<KeyEntry> key_entries(const StackedChart& chart) {
  std::vector<KeyEntry> entries;
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    entries.push_back({{}, {}, part_look(chart.part_styles[i]), chart.parts[i]});
  }
  entries.push_back({"linewidth 3 linecolor rgb '#000000'", {}, {}, chart.whole});
  return entries;
}

// What the axis must hold, with a little room.
double longest(const StackedChart& chart) {
  double most = 0;
  for (const StackedBar& bar : chart.bars) {
    most = std::max({most, bar.whole, std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0)});
  }
  return most > 0 ? 1.04 * most : 1;
}

double widest(const std::vector<std::string>& names) {
  double width = 0;
  for (const std::string& name : names) width = std::max(width, text_width(name, kFont));
  return width;
}

std::string script(const StackedChart& chart, const PictureOptions& options, const Unit& unit) {
  std::vector<std::string> names, tics;
  const std::vector<KeyEntry> keys = key_entries(chart);
  const std::vector<double> at = places(chart);
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    names.push_back(name_of(chart.bars[i]));
    tics.push_back(fmt::format("{} {:.4f}", gnuplot_tic(names[i]), at[i]));
  }
  const double left = widest(names) + 24, span = at.back() + 0.5;
  // The key must fit as well.
  const double body = std::max(span * kBar, kKeyLine * static_cast<double>(keys.size()));
  GnuplotPicture picture(chart.caption, options, left + kPanel + kKeyGap + key_width(keys),
                         kTop + body + kAxis);
  picture.panel({left, left + kPanel, kTop, kTop + body});
  picture.line(
      "set ytics ({}) scale 0; unset grid; set grid xtics linetype 1 linewidth 0.6 linecolor rgb "
      "'#D8D8D8'",
      fmt::join(tics, ", "));
  picture.line("set yrange [{:.4f}:0]; set xrange [0:{:.9g}]; set xlabel '{}'", span,
               longest(chart) / unit.scale, unit.axis);
  std::vector<std::string> elements;
  for (std::size_t part = 0; part < chart.parts.size(); ++part) {
    std::string bars = bars_of_part(picture, chart, part, at, unit.scale);
    if (!bars.empty()) elements.push_back(std::move(bars));
  }
  elements.push_back(whole_marks(picture, chart, at, unit.scale));
  picture.plot(elements);
  picture.key(left + kPanel + kKeyGap, kTop, keys);
  return picture.finish();
}

}  // namespace

std::string breakdown_script(const StackedChart& chart, const PictureOptions& options) {
  return script(chart, options, {"time of a step / ms", 1e-3});
}

std::string memory_script(const StackedChart& chart, const PictureOptions& options) {
  return script(chart, options, {"memory of a device / MiB", 1024.0 * 1024.0});
}

}  // namespace ddpbench::report
