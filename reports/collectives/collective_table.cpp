// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/collectives/collective_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "reports/table/table_layout.h"

namespace ddpbench::report {
namespace {

std::string cell(const Figure& figure, double factor, int digits, Footnotes& notes) {
  if (figure.value) return fmt::format("{:.{}f}", factor * *figure.value, digits);
  return fmt::format("-{}", notes.mark(figure.reason.empty() ? "not measured" : figure.reason));
}

// As large a unit as loses nothing: "4 KiB", "1000 B".
std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string time_text(const CollectiveRow& row, double StepStatistics::*part) {
  return row.time_s ? fmt::format("{:.2f}", 1e6 * ((*row.time_s).*part)) : "-";
}

TextTable collective_rows(const Report& report, Footnotes& notes) {
  TextTable table;
  table.columns = {{"", "op", true, false, {}},
                   {"", "ranks", false, false, {}},
                   {"", "size", false, false, {}},
                   {"", "count", false, false, {}},
                   {"", "type", true, false, {}},
                   {"", "redop", true, false, {}},
                   {"time us", "median", false, false, {}},
                   {"", "(IQR)", false, true, {}},
                   {"algbw", "GB/s", false, false, {}},
                   {"busbw", "GB/s", false, false, {}},
                   {"bound", "GB/s", false, false, {}},
                   {"share", "%", false, false, {}},
                   {"", "wrong", false, false, {}}};
  table.keys = 3;
  for (const CollectiveRow& row : report.collectives) {
    const std::string ranks = fmt::format("{}{}", row.ranks, row.oversubscribed ? "*" : "");
    const std::vector<std::string> cells = {
        printable(row.operation),
        ranks,
        size_text(row.bytes),
        std::to_string(row.count),
        printable(row.data_type),
        row.reduction.empty() ? "none" : row.reduction,
        time_text(row, &StepStatistics::median),
        fmt::format("({})", time_text(row, &StepStatistics::iqr)),
        cell(row.algbw_gb_per_s, 1, 2, notes),
        cell(row.busbw_gb_per_s, 1, 2, notes),
        cell(row.bound_busbw_gb_per_s, 1, 2, notes),
        cell(row.share_of_bound, 100, 1, notes),
        row.wrong ? std::to_string(*row.wrong) : fmt::format("-{}", notes.mark(row.wrong_reason))};
    for (std::size_t i = 0; i < cells.size(); ++i) table.columns[i].cells.push_back(cells[i]);
    table.instead.emplace_back();
  }
  return table;
}

// A row a working set, two columns a number of cores. What two worlds measured alike counts once,
// the faster of them.
TextTable bandwidth_rows(const Report& report) {
  std::map<std::uint64_t, std::map<int, BandwidthRow>> by_set;
  std::set<int> numbers;
  for (const BandwidthRow& row : report.memory_bandwidth) {
    numbers.insert(row.cores);
    BandwidthRow& best = by_set[row.working_set_bytes][row.cores];
    best.copy_gb_per_s = std::max(best.copy_gb_per_s, row.copy_gb_per_s);
    best.reduce_gb_per_s = std::max(best.reduce_gb_per_s, row.reduce_gb_per_s);
  }
  TextTable table{1, {{"memory", "a core", false, false, {}}}, {}};
  for (const int cores : numbers) {
    const std::string top = fmt::format("{} core{}", cores, cores == 1 ? "" : "s");
    table.columns.push_back({top, "copy GB/s", false, false, {}});
    table.columns.push_back({"", "reduce GB/s", false, true, {}});
  }
  for (auto& [bytes, by_cores] : by_set) {
    table.columns[0].cells.push_back(size_text(bytes));
    std::size_t column = 1;
    for (const int cores : numbers) {
      const auto found = by_cores.find(cores);
      for (double BandwidthRow::*part :
           {&BandwidthRow::copy_gb_per_s, &BandwidthRow::reduce_gb_per_s}) {
        table.columns[column++].cells.push_back(
            found == by_cores.end() ? "-" : fmt::format("{:.2f}", found->second.*part));
      }
    }
    table.instead.emplace_back();
  }
  return table;
}

std::string caption(const Report& report) {
  std::vector<std::string> worlds;
  for (const CollectiveRow& row : report.collectives) {
    std::string world = fmt::format("{}, ranks are {}", row.backend,
                                    row.mode == "thread" ? "threads" : "processes");
    if (std::ranges::find(worlds, world) == worlds.end()) worlds.push_back(std::move(world));
  }
  std::string text = fmt::format("collectives: {}", fmt::join(worlds, " / "));
  if (!report.environment.cpu.model.empty()) {
    text += fmt::format(", {}", report.environment.cpu.model);
  }
  return printable(text);
}

}  // namespace

CollectiveTables collective_tables(const Report& report) {
  Footnotes notes;
  CollectiveTables tables{caption(report), collective_rows(report, notes), {}, {}};
  tables.notes.emplace_back(
      "time: the slowest rank of each iteration; bound: busbw at which the cores' own copies and "
      "reductions, measured before, would move the same bytes");
  if (std::ranges::any_of(report.collectives, &CollectiveRow::oversubscribed)) {
    tables.notes.emplace_back("*: oversubscribed, more ranks than cores");
  }
  for (std::size_t i = 0; i < notes.reasons().size(); ++i) {
    tables.notes.push_back(fmt::format("({}) {}", i + 1, printable(notes.reasons()[i])));
  }
  if (!report.memory_bandwidth.empty()) tables.bandwidth = bandwidth_rows(report);
  return tables;
}

std::string render_collectives(const Report& report, int width) {
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  const CollectiveTables tables = collective_tables(report);
  std::string text =
      wrap(tables.caption, columns, 2) + '\n' + render_blocks(tables.collectives, columns) + '\n';
  for (const std::string& note : tables.notes) text += wrap(note, columns, 4);
  if (!tables.bandwidth.columns.empty()) text += '\n' + render_blocks(tables.bandwidth, columns);
  return text;
}

}  // namespace ddpbench::report
