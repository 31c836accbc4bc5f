// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The scaling in a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "base/text.h"
#include "reports/charts/chart_data.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kLeastWidth = 40, kIndent = 2, kDevices = 3, kGap = 2;
constexpr const char *kFull = "█", *kOversubscribed = "▒", *kIdeal = "│";

std::string rate_text(const Spread& rate) {
  if (rate.count == 1) return short_number(rate.median);
  return fmt::format("{} ({}..{})", short_number(rate.median), short_number(rate.min),
                     short_number(rate.max));
}

std::string efficiency_text(const ScalingPoint& point) {
  return point.efficiency ? fmt::format("{:.1f} %", 100 * point.efficiency->median) : "-";
}

// The samples/s of perfect scaling at this point, where a chart can say it.
std::optional<double> ideal_of(const ScalingChart& chart, const ScalingPoint& point) {
  if (chart.ideals.size() != 1 || point.oversubscribed) return std::nullopt;
  return chart.ideals.front().samples_per_s_per_device * point.devices;
}

// The bar of a point in `cells` cells, which stand for 0 to `most` samples/s.
std::string bar_of(const ScalingPoint& point, std::optional<double> ideal, double most,
                   std::size_t cells) {
  const auto cell_of = [&](double value) {
    const auto count = static_cast<double>(cells);
    const double cell = std::round(value / (most > 0 ? most : 1) * count);
    return static_cast<std::size_t>(std::clamp(cell, 0.0, count));
  };
  std::vector<std::string_view> row(cells, " ");
  std::fill_n(row.begin(), cell_of(point.samples_per_s.median),
              point.oversubscribed ? kOversubscribed : kFull);
  if (ideal) row[std::min(cell_of(*ideal), cells - 1)] = kIdeal;
  return joined(row, "");
}

std::string legend(const ScalingChart& chart) {
  const bool repeated = std::ranges::any_of(
      chart.points, [](const ScalingPoint& point) { return point.samples_per_s.count > 1; });
  return fmt::format("devices, samples/s{}, efficiency{}", repeated ? " (of all repetitions)" : "",
                     chart.ideals.size() == 1 ? fmt::format("; {}: ideal", kIdeal) : "");
}

}  // namespace

std::string draw_text(const ScalingChart& chart, int columns) {
  const std::size_t width = std::max(kLeastWidth, static_cast<std::size_t>(std::max(columns, 0)));
  std::string text;
  const auto line = [&](const std::string& words) { text += wrap(printable(words), width, 2); };
  line(chart.caption.title);
  line(chart.caption.subtitle);
  line(legend(chart));
  double most = 0;
  std::size_t rate = 0;
  for (const ScalingPoint& point : chart.points) {
    most = std::max({most, point.samples_per_s.max, ideal_of(chart, point).value_or(0)});
    rate = std::max(rate, rate_text(point.samples_per_s).size());
  }
  constexpr std::size_t kEfficiency = 7, kLeastCells = 4;
  const std::size_t taken = kIndent + kDevices + kGap + kGap + rate + kGap + kEfficiency;
  const std::size_t cells = std::max(width, taken + kLeastCells) - taken;
  const ScalingPoint* before = nullptr;
  for (const ScalingPoint& point : chart.points) {
    if (before == nullptr || before->series != point.series) {
      text += '\n';
      line(chart.series[point.series].name);
    }
    before = &point;
    text += fmt::format("  {:2}{}  {}  {:>{}}  {:>{}}\n", point.devices,
                        point.oversubscribed ? '*' : ' ',
                        bar_of(point, ideal_of(chart, point), most, cells),
                        rate_text(point.samples_per_s), rate, efficiency_text(point), kEfficiency);
  }
  if (!chart.caption.notes.empty()) text += '\n';
  for (const std::string& note : chart.caption.notes) line(note);
  return text;
}

}  // namespace ddpbench::report
