// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of bus bandwidth over size, with the bound that memory sets, of `ddpbench comm`.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "reports/charts/chart_runs.h"
#include "reports/data/report_view.h"

namespace ddpbench::report {
namespace {

// Colours of lines in the order of their appearance; grey, which is `single` elsewhere, comes last.
constexpr std::size_t kColours[] = {2, 1, 3, 4, 5, 6, 7, 0};

struct DrawnRow {
  const Report* report = nullptr;
  const CollectiveRow* row = nullptr;
};

std::string unfit_bandwidth(const CollectiveRow& row) {
  if (row.wrong.value_or(0) > 0) return "its results were wrong";
  if (!row.busbw_gb_per_s.value) return row.busbw_gb_per_s.reason;
  const bool drawable = plausible(*row.busbw_gb_per_s.value) && *row.busbw_gb_per_s.value > 0;
  return drawable && row.bytes > 0 ? "" : "its bandwidth is not plausible";
}

// What may tell a row from others of its operation and size, in the order of a name.
Told told_of(const DrawnRow& from, std::vector<std::string>& machines) {
  const CollectiveRow& row = *from.row;
  Told told{row.operation, {}};
  const auto add = [&](const char* key, const std::string& words) {
    if (!words.empty()) told.words.push_back({key, words, row.operation, true});
  };
  add("ranks", counted(row.ranks, "rank"));
  add("all_reduce", row.all_reduce);
  add("backend", row.backend);
  add("emulated_link",
      row.emulated_link.empty() ? "" : value_words("emulated_link", row.emulated_link));
  add("mode", row.mode == "thread" ? "threads" : "processes");
  add("device", row.device_model.empty() ? row.device : row.device_model);
  add("data_type", row.data_type);
  add("redop", row.reduction);
  add("in_place", row.in_place ? "in place" : "not in place");
  add("machine", lettered_machine(machines, *from.report));
  add("build", build_words(from.report->generator));
  return told;
}

struct LineNames {
  std::vector<std::string> lines;  // of each row: "2 ranks, ring, machine B"
  std::string shared;              // by all rows: "shm, processes, fp32"
};

// Names lines by what rows of an operation differ in.
LineNames names_of(const std::vector<DrawnRow>& rows) {
  std::vector<std::string> machines, shared;
  const std::vector<Told> all =
      mapped(rows, [&](const DrawnRow& row) { return told_of(row, machines); });
  std::set<std::string> tell = {"ranks"};  // keys
  for (const auto& [operation, key] : telling(all)) tell.insert(key);
  LineNames names;
  for (const Told& told : all) {
    const auto tells = [&tell](const TellingWords& word) { return tell.contains(word.key); };
    names.lines.push_back(
        joined(told.words | std::views::filter(tells), ", ", &TellingWords::words));
  }
  for (const TellingWords& word : all.front().words) {
    const bool in_title = word.key == "backend" || word.key == "emulated_link" ||
                          word.key == "mode" || word.key == "data_type";
    if (in_title && !tell.contains(word.key)) shared.push_back(word.words);
  }
  names.shared = joined(shared, ", ");
  return names;
}

// Points and series, in the order of the reports; the caption is not set.
void add_points(const std::vector<DrawnRow>& rows, const LineNames& names, BandwidthChart& chart) {
  struct Measured {
    std::vector<double> gb_per_s, bounds;
    bool oversubscribed = false;
  };
  std::vector<std::string> series;
  std::map<std::tuple<std::size_t, std::size_t, std::uint64_t>, Measured> measured;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const CollectiveRow& row = *rows[i].row;
    Measured& point = measured[{index_in(chart.operations, row.operation),
                                index_in(series, names.lines[i]), row.bytes}];
    point.gb_per_s.push_back(*row.busbw_gb_per_s.value);
    point.oversubscribed |= row.oversubscribed;
    const auto& bound = row.bound_busbw_gb_per_s.value;
    if (bound && plausible(*bound) && *bound > 0) point.bounds.push_back(*bound);
  }
  for (std::size_t i = 0; i < series.size(); ++i) {
    chart.series.push_back({series[i], kColours[i % std::size(kColours)], i / std::size(kColours)});
  }
  for (auto& [place, point] : measured) {
    const auto [panel, line, bytes] = place;
    chart.points.push_back(
        {panel, line, bytes, spread(point.gb_per_s),
         point.bounds.empty() ? std::nullopt : std::optional(median(std::move(point.bounds))),
         point.oversubscribed});
  }
}

void note_points(BandwidthChart& chart) {
  chart.caption.notes.push_back("of the median time of the slowest rank; " +
                                repetitions_note(mapped(chart.points, &BandwidthPoint::gb_per_s)));
  if (std::ranges::any_of(chart.points, &BandwidthPoint::oversubscribed)) {
    chart.caption.notes.emplace_back("* or hollow: oversubscribed, ranks share cores or GPUs");
  }
  const auto has_bound = [](const BandwidthPoint& point) {
    return point.bound_gb_per_s.has_value();
  };
  if (std::ranges::any_of(chart.points, has_bound)) {
    chart.caption.notes.emplace_back(
        "bound: the bus bandwidth at which the measured bandwidth of memory would be used up");
  }
}

ChartCaption bandwidth_caption(const std::vector<DrawnRow>& rows, const LineNames& names,
                               const BandwidthChart& chart) {
  constexpr std::size_t kNamed = 3;
  const std::string what = chart.operations.size() > kNamed
                               ? counted(chart.operations.size(), "collective")
                               : joined(chart.operations, ", ");
  return {fmt::format("Bus bandwidth: {}, {}", what, names.shared),
          machines_text(mapped(rows, &DrawnRow::report)),
          {}};
}

}  // namespace

BandwidthChart bandwidth_chart(std::span<const Report> reports) {
  BandwidthChart chart;
  chart.id = "bandwidth";
  chart.heading = "Bus bandwidth";
  LeftOut left_out;
  std::vector<DrawnRow> rows;
  for (const Report& report : reports) {
    for (const CollectiveRow& row : report.collectives) {
      const std::string reason = unfit_bandwidth(row);
      if (reason.empty()) {
        rows.push_back({&report, &row});
      } else {
        const std::string size = row.bytes > 0 ? " of " + size_text(row.bytes) : "";
        left_out.add(
            fmt::format("{}{} between {}", row.operation, size, counted(row.ranks, "rank")),
            reason);
      }
    }
  }
  if (rows.empty()) {
    chart.empty_reason = left_out.empty() ? "there are no collectives" : left_out.note();
    return chart;
  }
  const LineNames names = names_of(rows);
  add_points(rows, names, chart);
  chart.caption = bandwidth_caption(rows, names, chart);
  note_interrupted(reports, chart.caption);
  note_points(chart);
  if (!left_out.empty()) chart.caption.notes.push_back(left_out.note());
  return chart;
}

}  // namespace ddpbench::report
