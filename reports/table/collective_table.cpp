// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/math.h"
#include "base/text.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {
namespace {

std::string cell(const Figure& figure, double factor, int digits, Footnotes& notes) {
  if (figure.value) return fmt::format("{:.{}f}", factor * *figure.value, digits);
  return fmt::format("-{}", notes.mark(figure.reason.empty() ? "not measured" : figure.reason));
}

std::string time_text(const CollectiveRow& row, double StepStatistics::*part) {
  return row.time_s ? fmt::format("{:.2f}", 1e6 * ((*row.time_s).*part)) : "-";
}

std::string iqr_text(const CollectiveRow& row) {
  const auto iqr = row.time_s ? row.time_s->iqr.value : std::nullopt;
  return iqr ? fmt::format("({:.2f})", 1e6 * *iqr) : "(-)";
}

// The different algorithms of the all-reduces.
std::set<std::string> algorithms_of(const Report& report) {
  std::set<std::string> algorithms;
  for (const CollectiveRow& row : report.collectives) {
    if (!row.all_reduce.empty()) algorithms.insert(row.all_reduce);
  }
  return algorithms;
}

// The operation, with its algorithm where rows have several.
std::string operation_text(const CollectiveRow& row, bool several) {
  return several && !row.all_reduce.empty()
             ? fmt::format("{} ({})", printable(row.operation), printable(row.all_reduce))
             : printable(row.operation);
}

// The bound is one of bandwidth: of small buffers, latency decides, and a share of it means
// nothing.
std::string bound_cell(const CollectiveRow& row, const Figure& figure, double factor, int digits,
                       Footnotes& notes) {
  const bool is_small = row.bytes < kMiB && figure.value;
  return is_small ? "-" + notes.mark("below 1 MiB latency decides, which the bound leaves out")
                  : cell(figure, factor, digits, notes);
}

bool on_gpus(const CollectiveRow& row) { return row.device == "cuda"; }

TextTable collective_rows(const Report& report, Footnotes& notes) {
  TextTable table;
  table.columns = {{"", "op", true},         {"", "ranks"},         {"", "size"},
                   {"", "count", false, 4},  {"", "type", true, 5}, {"", "redop", true, 6},
                   {"in", "place", true, 7}, {"time us", "median"}, {"", "(IQR)", false, 3},
                   {"algbw", "GB/s"},        {"busbw", "GB/s"},     {"bound", "GB/s", false, 2},
                   {"share", "%", false, 1}, {"", "wrong"}};
  const bool several = algorithms_of(report).size() > 1;
  for (const CollectiveRow& row : report.collectives) {
    const std::string ranks = fmt::format("{}{}", row.ranks, row.oversubscribed ? "*" : "");
    table.add_row({operation_text(row, several), ranks, size_text(row.bytes),
                   std::to_string(row.count), printable(row.data_type),
                   row.reduction.empty() ? "none" : row.reduction, row.in_place ? "yes" : "no",
                   time_text(row, &StepStatistics::median), iqr_text(row),
                   cell(row.algbw_gb_per_s, 1, 2, notes), cell(row.busbw_gb_per_s, 1, 2, notes),
                   bound_cell(row, row.bound_busbw_gb_per_s, 1, 2, notes),
                   bound_cell(row, row.share_of_bound, 100, 1, notes),
                   row.wrong ? std::to_string(*row.wrong)
                             : fmt::format("-{}", notes.mark(row.wrong_reason))});
  }
  return table;
}

// Takes the columns out that say the same of all rows and are no figures, and returns what they
// say:
// ", op all_reduce, ranks 2".
std::string take_constants(TextTable& table) {
  constexpr std::string_view kTaken[] = {"op", "ranks", "type", "redop", "in place"};
  std::string words;
  std::erase_if(table.columns, [&](const TextColumn& column) {
    const std::string& first = column.cells.at(0);
    if (std::ranges::count(kTaken, heading(column)) == 0 ||
        std::ranges::count(column.cells, first) < std::ssize(column.cells)) {
      return false;
    }
    words += fmt::format(", {} {}", heading(column), first);
    return true;
  });
  return words;
}

// A row for each working set and each number of cores, or GPU, that moved it. If two worlds
// measured the same, the faster result counts.
TextTable bandwidth_rows(const Report& report) {
  using Key = std::tuple<std::uint64_t, std::optional<int>, std::optional<int>>;
  std::map<Key, BandwidthRow> best;
  for (const BandwidthRow& row : report.memory_bandwidth) {
    BandwidthRow& known = best[{row.working_set_bytes, row.gpu, row.cores}];
    known.copy_gb_per_s = std::max(known.copy_gb_per_s, row.copy_gb_per_s);
    known.reduce_gb_per_s.value = std::max(known.reduce_gb_per_s.value, row.reduce_gb_per_s.value);
  }
  TextTable table{{{"", "memory"}, {"", "moved by"}, {"", "copy GB/s"}, {"", "reduce GB/s"}}};
  for (const auto& [key, row] : best) {
    const auto& [bytes, gpu, cores] = key;
    const std::optional<double>& reduce = row.reduce_gb_per_s.value;
    table.add_row(
        {size_text(bytes), gpu ? fmt::format("GPU {}", *gpu) : counted(cores.value_or(0), "core"),
         fmt::format("{:.2f}", row.copy_gb_per_s), reduce ? fmt::format("{:.2f}", *reduce) : "-"});
  }
  if (std::ranges::count(table.columns.back().cells, "-") == std::ssize(best))
    table.columns.pop_back();  // GPUs copy alone
  return table;
}

std::string caption(const Report& report) {
  std::vector<std::string> worlds;
  for (const CollectiveRow& row : report.collectives) {
    std::string world = fmt::format("{}, ranks are {}", row.backend,
                                    row.mode == "thread" ? "threads" : "processes");
    if (on_gpus(row)) {
      world += fmt::format(" on {}", row.device_model.empty() ? "GPUs" : row.device_model);
    }
    if (!row.emulated_link.empty()) world += ", emulated link " + row.emulated_link;
    if (std::ranges::find(worlds, world) == worlds.end()) worlds.push_back(std::move(world));
  }
  std::string text = fmt::format("collectives: {}", fmt::join(worlds, " / "));
  if (const auto algorithms = algorithms_of(report); algorithms.size() == 1) {
    text += fmt::format(", all-reduce {}", *algorithms.begin());
  }
  if (!report.environment.cpu.model.empty()) {
    text += fmt::format(", {}", report.environment.cpu.model);
  }
  if (const auto& hosts = report.environment.hosts; hosts.size() > 1) {
    text += fmt::format(", on {} ({})", counted(hosts.size(), "host"), fmt::join(hosts, ", "));
  }
  return printable(text);
}

// "average busbw: all_reduce 12.30 GB/s (8 rows)" over the rows of an operation, its sizes weighing
// the same, as in nccl-tests; empty where no operation has several rows with a bandwidth.
std::string average_bandwidths(const std::vector<CollectiveRow>& rows) {
  const auto known = [](const CollectiveRow& row) { return row.busbw_gb_per_s.value.has_value(); };
  std::vector<std::string> words;
  for (const auto& [name, measured] :
       grouped(rows | std::views::filter(known), [](const CollectiveRow& row) {
         return fmt::format("{}{} between {}", operation_text(row, true),
                            row.in_place ? " in place" : "", counted(row.ranks, "rank"));
       })) {
    if (measured.size() < 2) continue;
    double sum = 0;
    for (const CollectiveRow& row : measured) sum += *row.busbw_gb_per_s.value;
    words.push_back(fmt::format("{} {:.2f} GB/s ({} sizes)", name,
                                sum / static_cast<double>(measured.size()), measured.size()));
  }
  return words.empty() ? "" : fmt::format("average busbw: {}", fmt::join(words, ", "));
}

std::vector<std::string> explanations(const std::vector<CollectiveRow>& rows) {
  const bool gpus = std::ranges::any_of(rows, on_gpus);
  const bool bounded = std::ranges::any_of(
      rows, [](const CollectiveRow& row) { return row.bound_busbw_gb_per_s.value.has_value(); });
  std::vector<std::string> notes = {fmt::format(
      "time: the slowest rank of each iteration; {}in place: results replace what was contributed",
      !bounded ? ""
      : gpus   ? "bound: busbw at which the GPU's own copies, measured before, would move the same "
                 "bytes; "
               : "bound: busbw at which the cores' own copies and reductions, measured before, "
                 "would move the same bytes; ")};
  if (std::ranges::any_of(rows, &CollectiveRow::oversubscribed)) {
    notes.push_back(fmt::format("*: oversubscribed, more ranks than {}", gpus ? "GPUs" : "cores"));
  }
  if (const std::string average = average_bandwidths(rows); !average.empty()) {
    notes.push_back(average);
  }
  std::int64_t late = 0;
  for (const CollectiveRow& row : rows) late += row.late_iterations;
  if (late > 0) notes.push_back(counted(late, "iteration") + " waited for the host to queue them");
  return notes;
}

}  // namespace

CollectiveTables collective_tables(const Report& report) {
  Footnotes notes;
  CollectiveTables tables{caption(report), collective_rows(report, notes), {}, {}};
  tables.caption += take_constants(tables.collectives);
  tables.notes = explanations(report.collectives);
  std::ranges::move(notes.lines(), std::back_inserter(tables.notes));
  if (!report.memory_bandwidth.empty()) tables.bandwidth = bandwidth_rows(report);
  return tables;
}

std::string render_collectives(const Report& report, int width) {
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  const CollectiveTables tables = collective_tables(report);
  std::string text =
      wrap(tables.caption, columns, 2) + '\n' + render_rows(tables.collectives, columns) + '\n';
  for (const std::string& note : tables.notes) text += wrap(note, columns, 4);
  if (!tables.bandwidth.columns.empty()) text += '\n' + render_rows(tables.bandwidth, columns);
  return text;
}

}  // namespace ddpbench::report
