// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The cells of the columns, which columns a table has, and in which order its rows stand.
#include "reports/table/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "reports/data/settings.h"
#include "reports/metrics/repetitions.h"

namespace ddpbench::report {
namespace {

// ---- cells ----

std::string fixed(double value, Format format) {
  return fmt::format("{:.{}f}", value / format.unit, format.decimals);
}

// "ddp (overlap off)".
std::string strategy_cell(const RunRow& row) { return with_note(row.run->strategy, row.details); }

// "2+1": two workers and a server.
std::string devices_cell(const RunRow& row) {
  const std::string cell = std::to_string(row.run->world_size);
  return row.run->servers > 0 ? fmt::format("{}+{}", cell, row.run->servers) : cell;
}

std::string batch_cell(const RunRow& row) {
  const Run& run = *row.run;
  return run.per_device_batch_size == 0
             ? "-"
             : fmt::format("{}/{}", run.per_device_batch_size, run.global_batch_size);
}

// Counts from 1, like the progress lines.
std::string repetition_cell(const RunRow& row) {
  return row.repeated != nullptr ? "all" : std::to_string(row.run->repetition + 1);
}

std::string repetitions_cell(const RunRow& row) {
  if (row.repeated == nullptr) return "1";
  const std::size_t all = row.repeated->runs.size(), timed = row.repeated->timed.size();
  return timed == all ? std::to_string(all) : fmt::format("{} of {}", timed, all);
}

std::string verified_cell(const RunRow& row) {
  constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"passed", "yes"}, {"reference", "ref."}, {"failed", "NO"}, {"not_applicable", "n/a"}};
  const std::string& status = verification_of(row).status;
  const auto found = std::ranges::find(kWords, status, [](const auto& word) { return word.first; });
  return found == std::end(kWords) ? status : found->second;
}

// Of the fullest device.
std::string memory_cell(const RunRow& row) {
  const Column& column = *find_column("memory");
  const std::optional<double> primary = column.fields.front().value(row).number();
  const std::optional<double> others =
      find_column("other-memory")->fields.front().value(row).number();
  return primary ? fixed(std::max(*primary, others.value_or(0)), column.format) : "-";
}

constexpr std::pair<std::string_view, std::string (*)(const RunRow&)> kCells[] = {
    {"strategy", strategy_cell},      {"devices", devices_cell},       {"batch", batch_cell},
    {"memory", memory_cell},          {"repetition", repetition_cell}, {"verified", verified_cell},
    {"repetitions", repetitions_cell}};

// "1.85..1.90"; empty where nothing is known of the noise.
std::string interval_cell(const Column& column, const RunRow& row) {
  const std::optional<double> low = column.fields.front().value(row).number();
  const std::optional<double> high = column.fields.back().value(row).number();
  if (!low || !high) return "";
  return fmt::format("{}..{}", fixed(*low, column.format), fixed(*high, column.format));
}

std::string value_cell(const Column& column, const RunRow& row) {
  constexpr double kLong = 100;  // digits behind the point of longer steps are noise
  const Scalar value = column.fields.front().value(row).value;
  if (const auto* text = std::get_if<std::string>(&value)) return text->empty() ? "-" : *text;
  if (const auto* number = std::get_if<double>(&value)) {
    const double shown = *number / column.format.unit;
    const bool is_short = column.name == "rate" || (column.name == "step" && shown >= kLong);
    return is_short ? short_number(shown) : fixed(*number, column.format);
  }
  const auto* count = std::get_if<std::int64_t>(&value);
  if (count == nullptr) return "-";
  return column.fields.front().is_bytes() ? fixed(static_cast<double>(*count), column.format)
                                          : std::to_string(*count);
}

}  // namespace

std::string Column::cell(const RunRow& row) const {
  const auto special = std::ranges::find(kCells, name, [](const auto& cell) { return cell.first; });
  if (special != std::end(kCells)) return special->second(row);
  const bool is_interval = name.ends_with("-interval");
  if (name.starts_with("speedup") || name == "efficiency") {
    const bool shown = row.doubt.empty() && !is_interval;
    if (shown && row.is_equal && row.run->strategy != kBaseline) return "=";
  }
  return is_interval ? interval_cell(*this, row) : value_cell(*this, row);
}

std::optional<double> FieldValue::number() const {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* count = std::get_if<std::int64_t>(&value)) return static_cast<double>(*count);
  const auto* flag = std::get_if<bool>(&value);
  return flag == nullptr ? std::nullopt : std::optional(*flag ? 1.0 : 0.0);
}

bool is_condensed(std::span<const RunRow> rows) {
  return std::ranges::any_of(rows, [](const RunRow& row) { return row.repeated != nullptr; });
}

const Column* find_column(const std::string& name) {
  const auto find = [](auto matches) -> const Column* {
    const auto found = std::ranges::find_if(run_columns(), matches);
    return found == run_columns().end() ? nullptr : &*found;
  };
  const Column* column = find([&](const Column& c) { return c.name == name; });
  if (column == nullptr) {
    column = find([&](const Column& c) { return std::ranges::count(c.fields, name, &Field::key); });
  }
  return column != nullptr ? column : find([&](const Column& c) { return c.heading == name; });
}

Columns name_columns(std::span<const RunRow> rows) {
  Columns columns = {find_column("strategy"), find_column("devices")};
  if (from_several_files(rows)) columns.insert(columns.begin(), find_column("report"));
  return columns;
}

Columns usual_columns(std::span<const RunRow> rows) {
  Columns columns = name_columns(rows);
  if (is_condensed(rows)) {
    columns.push_back(find_column("repetitions"));
  } else if (std::ranges::any_of(rows, [](const RunRow& r) { return r.run->repetition > 0; })) {
    columns.push_back(find_column("repetition"));
  }
  for (const Column& column : run_columns()) {
    const auto has_value = [&column](const RunRow& row) {
      return column.fields.front().value(row).value.index() != 0;
    };
    if (column.is(kUsual) && std::ranges::any_of(rows, has_value)) columns.push_back(&column);
  }
  return columns;
}

Columns all_columns() {
  return mapped(run_columns(), [](const Column& column) { return &column; });
}

void sort_rows(std::vector<RunRow>& rows, const Column& column, bool descending) {
  std::vector<std::pair<Scalar, RunRow>> keyed;
  for (RunRow& row : rows) {
    Scalar value = column.fields.front().value(row).value;
    keyed.emplace_back(std::move(value), std::move(row));
  }
  std::ranges::stable_sort(keyed, [descending](const auto& a, const auto& b) {
    const bool a_missing = a.first.index() == 0, b_missing = b.first.index() == 0;
    if (a_missing || b_missing) return !a_missing && b_missing;
    return descending ? b.first < a.first : a.first < b.first;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::move(keyed[i].second);
}

std::string status_note(const Run& run) {
  if (run.status == Status::ok) return {};
  if (run.status == Status::diverged && run.error) return run.error->message;
  std::string why = run.reason;
  if (run.error) {
    const ErrorInfo& error = *run.error;
    why = fmt::format("{}{}{}: {}", error.rank ? fmt::format("rank {}, ", *error.rank) : "",
                      error.step ? fmt::format("step {}, ", *error.step) : "", error.kind,
                      error.message);
  }
  return why.empty() ? std::string(to_string(run.status))
                     : fmt::format("{}: {}", to_string(run.status), why);
}

bool is_bare(const Run& run) { return run.status != Status::ok && !run.step.time_s; }

}  // namespace ddpbench::report
