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
#include "reports/charts/chart_names.h"
#include "reports/charts/chart_runs.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr std::size_t kMostLines = 24;  // that a legend can name
// Colours of lines in the order of their appearance; grey, which is `single` elsewhere, comes last.
constexpr std::size_t kColours[] = {2, 1, 3, 4, 5, 6, 7, 0};

struct DrawnRow {
  const Report* report = nullptr;
  const CollectiveRow* row = nullptr;
};

struct TellingWord {
  std::string key, text;
};

std::string place_of_row(const CollectiveRow& row) {
  return fmt::format("{}{} between {}", row.operation,
                     row.bytes > 0 ? " of " + size_text(row.bytes) : "",
                     counted(row.ranks, "rank"));
}

std::string unfit_bandwidth(const CollectiveRow& row) {
  if (row.wrong.value_or(0) > 0) return "its results were wrong";
  if (!row.busbw_gb_per_s.value) return row.busbw_gb_per_s.reason;
  const bool drawable = plausible(*row.busbw_gb_per_s.value) && *row.busbw_gb_per_s.value > 0;
  return drawable && row.bytes > 0 ? "" : "its bandwidth is not plausible";
}

// What may tell a row from others of its operation and size, in the order of a name.
std::vector<TellingWord> telling_words(const DrawnRow& from) {
  const CollectiveRow& row = *from.row;
  return {{"ranks", counted(row.ranks, "rank")},
          {"all_reduce", row.all_reduce},
          {"backend", row.backend},
          {"mode", row.mode == "thread" ? "threads" : "processes"},
          {"device", row.device_model.empty() ? row.device : row.device_model},
          {"data_type", row.data_type},
          {"redop", row.reduction},
          {"in_place", row.in_place ? "in place" : "not in place"},
          {"machine", chart_machine(*from.report)},
          {"build", chart_build(*from.report)}};
}

// Names lines by what rows of an operation differ in.
class LineNames {
 public:
  explicit LineNames(const std::vector<DrawnRow>& rows) {
    for (const DrawnRow& row : rows) {
      for (const TellingWord& word : telling_words(row)) {
        std::set<std::string>& texts = texts_[{row.row->operation, word.key}];
        texts.insert(word.text);
        if (texts.size() > 1) telling_.insert(word.key);
        if (word.key == "machine" && std::ranges::count(machines_, word.text) == 0) {
          machines_.push_back(word.text);
        }
      }
    }
  }

  // "2 ranks, ring, machine B".
  std::string series(const DrawnRow& row) const {
    std::string name;
    for (const TellingWord& word : telling_words(row)) {
      const bool told = word.key == "ranks" || telling_.contains(word.key);
      if (!told || word.text.empty()) continue;
      if (!name.empty()) name += ", ";
      name += word.key == "machine" ? "machine " + letter_of(word.text) : word.text;
    }
    return name;
  }

  // What all rows share, "shm, processes, fp32".
  std::string shared(const std::vector<DrawnRow>& rows) const {
    std::vector<std::string> words;
    for (const TellingWord& word : telling_words(rows.front())) {
      const bool in_title = word.key == "backend" || word.key == "mode" || word.key == "data_type";
      if (in_title && !telling_.contains(word.key)) words.push_back(word.text);
    }
    return fmt::format("{}", fmt::join(words, ", "));
  }

 private:
  std::string letter_of(const std::string& machine) const {
    return machine_letter(
        static_cast<std::size_t>(std::ranges::find(machines_, machine) - machines_.begin()));
  }

  std::map<std::pair<std::string, std::string>, std::set<std::string>> texts_;
  std::set<std::string> telling_;  // keys
  std::vector<std::string> machines_;
};

// The index of `name` in `names`, at whose end it is added where it is new.
std::size_t index_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

struct Measured {
  std::vector<double> gb_per_s, bounds;
  bool oversubscribed = false;
};

// Points and series, in the order of the reports; the caption is not set.
void add_points(const std::vector<DrawnRow>& rows, const LineNames& names, BandwidthChart& chart) {
  std::vector<std::string> series;
  std::map<std::tuple<std::size_t, std::size_t, std::uint64_t>, Measured> measured;
  for (const DrawnRow& from : rows) {
    const CollectiveRow& row = *from.row;
    Measured& point = measured[{index_in(chart.operations, row.operation),
                                index_in(series, names.series(from)), row.bytes}];
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

void limit_lines(BandwidthChart& chart) {
  if (chart.series.size() <= kMostLines) return;
  std::vector<std::string> dropped;
  for (std::size_t i = kMostLines; i < chart.series.size(); ++i) {
    dropped.push_back(chart.series[i].name);
  }
  chart.caption.notes.push_back(no_room_note(dropped, chart.series.size()));
  chart.series.resize(kMostLines);
  std::erase_if(chart.points,
                [](const BandwidthPoint& point) { return point.series >= kMostLines; });
}

void note_bounds(const std::vector<DrawnRow>& rows, BandwidthChart& chart) {
  const bool any = std::ranges::any_of(
      chart.points, [](const BandwidthPoint& point) { return point.bound_gb_per_s.has_value(); });
  if (any) {
    chart.caption.notes.emplace_back(
        "bound: the bus bandwidth at which the measured bandwidth of memory would be used up");
  }
  std::vector<std::string> reasons;
  for (const DrawnRow& from : rows) {
    const Figure& bound = from.row->bound_busbw_gb_per_s;
    if (!bound.value) index_in(reasons, bound.reason);
  }
  if (!reasons.empty()) {
    chart.caption.notes.push_back(fmt::format("no bound where: {}", fmt::join(reasons, "; ")));
  }
}

void note_points(BandwidthChart& chart) {
  int most = 1;
  bool oversubscribed = false;
  for (const BandwidthPoint& point : chart.points) {
    most = std::max(most, point.gb_per_s.count);
    oversubscribed |= point.oversubscribed;
  }
  chart.caption.notes.push_back(
      most == 1 ? "of the median time of the slowest rank"
                : fmt::format("of the median time of the slowest rank; median of up to {} "
                              "measurements, error bars or brackets: their least and most",
                              most));
  if (oversubscribed)
    chart.caption.notes.emplace_back("*: oversubscribed, ranks share cores or GPUs");
}

ChartCaption bandwidth_caption(const std::vector<DrawnRow>& rows, const LineNames& names,
                               const BandwidthChart& chart) {
  constexpr std::size_t kNamed = 3;
  std::vector<const Report*> reports;
  for (const DrawnRow& row : rows) reports.push_back(row.report);
  const std::string what = chart.operations.size() > kNamed
                               ? counted(chart.operations.size(), "collective")
                               : fmt::format("{}", fmt::join(chart.operations, ", "));
  ChartCaption caption;
  caption.title = fmt::format("Bus bandwidth: {}, {}", what, names.shared(rows));
  caption.subtitle = machines_text(reports);
  return caption;
}

}  // namespace

BandwidthChart bandwidth_chart(std::span<const Report> reports) {
  BandwidthChart chart;
  LeftOut left_out;
  std::vector<DrawnRow> rows;
  for (const Report& report : reports) {
    for (const CollectiveRow& row : report.collectives) {
      const std::string reason = unfit_bandwidth(row);
      if (reason.empty()) rows.push_back({&report, &row});
      if (!reason.empty()) left_out.add(place_of_row(row), reason);
    }
  }
  if (rows.empty()) {
    chart.empty_reason = left_out.empty() ? "there are no collectives" : left_out.note();
    return chart;
  }
  const LineNames names(rows);
  add_points(rows, names, chart);
  chart.caption = bandwidth_caption(rows, names, chart);
  note_interrupted(reports, chart.caption);
  note_points(chart);
  note_bounds(rows, chart);
  limit_lines(chart);
  if (!left_out.empty()) chart.caption.notes.push_back(left_out.note());
  return chart;
}

}  // namespace ddpbench::report
