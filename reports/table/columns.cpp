// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

FieldValue value_of(const Fact& fact, const Run& run, bool whole) {
  if (const auto* figure = std::get_if<Figure>(&fact)) {
    if (!figure->value) return {{}, missing_reason(*figure, run)};
    if (whole) return {static_cast<std::int64_t>(*figure->value)};
    return {*figure->value};
  }
  if (const auto* text = std::get_if<std::string>(&fact)) {
    if (text->empty()) return {{}, missing_reason(run)};
    return {*text};
  }
  if (const auto* count = std::get_if<std::int64_t>(&fact)) return {*count};
  return {std::get<bool>(fact)};
}

std::string error_note(const ErrorInfo& error) {
  std::string where;
  if (error.rank) where += fmt::format("rank {}, ", *error.rank);
  if (error.step) where += fmt::format("step {}, ", *error.step);
  return fmt::format("{}{}: {}", where, error.kind, error.message);
}

std::vector<Column> make_columns() {
  std::vector<Column> columns = setting_columns();
  for (auto make : {figure_columns, repetition_columns}) {
    for (Column& column : make()) columns.push_back(std::move(column));
  }
  return columns;
}

const Column* known_column(const std::string& name) {
  const Column* column = find_column(name);
  ensure(column != nullptr, "there is no column {}", name);
  return column;
}

// Puts the column `name` behind the one called `place`.
void insert_behind(const std::string& place, const std::string& name, Columns& columns) {
  const auto found = std::ranges::find(columns, place, &Column::name);
  if (found != columns.end()) columns.insert(found + 1, known_column(name));
}

using Names = std::vector<std::string>;

Names option_names(const Run& run) {
  Names names;
  for (const auto& [name, value] : run.strategy_options) names.push_back(name);
  return names;
}

// Those that reports name only where they are not as usual.
Names unusual_options(const Run& run) {
  Names names = option_names(run);
  std::erase_if(
      names, [](const std::string& name) { return !is_usual_without("strategy_options/" + name); });
  return names;
}

// Whether runs of one strategy differ in its options: their rows would look alike without them. A
// run that names none may be of a program that does not record them. On another number of devices a
// strategy may have other options.
bool options_vary(std::span<const RunRow> rows) {
  using Peers = std::tuple<std::string, int, int>;
  std::map<std::pair<std::string, std::string>, std::string> known;  // strategy, option -> value
  std::map<Peers, Names> named, unusual;
  const auto differs = [](std::map<Peers, Names>& firsts, const Peers& peers, const Names& names) {
    return firsts.try_emplace(peers, names).first->second != names;
  };
  for (const RunRow& row : rows) {
    const Run& run = *row.run;
    for (const auto& [name, value] : run.strategy_options) {
      const auto [first, added] = known.try_emplace({run.strategy, name}, value);
      if (!added && first->second != value) return true;
    }
    const Peers peers = {run.strategy, run.world_size, run.servers};
    if (differs(unusual, peers, unusual_options(run))) return true;
    const bool records = !run.strategy_options.empty();
    if (records && differs(named, peers, option_names(run))) return true;
  }
  return false;
}

// Whether runs that have figures differ in the column, as far as they know it.
bool varies(std::span<const RunRow> rows, const Column& column) {
  std::optional<Scalar> first;
  for (const RunRow& row : rows) {
    const Scalar value = column.fields.front().value(row).value;
    if (is_bare(*row.run) || value.index() == 0) continue;
    if (!first) first = value;
    if (value != *first) return true;
  }
  return false;
}

// What tells rows apart and stands in no column of the table where all agree in it.
constexpr const char* kVarying[] = {"model", "dataset", "device", "threads", "precision", "update"};
// The other columns that table_columns() adds for some rows.
constexpr const char* kForSomeRows[] = {"others-idle", "to-accuracy", "sync",  "repetition",
                                        "repetitions", "options",     "report"};

Columns varying_columns(std::span<const RunRow> rows) {
  Columns columns;
  for (const char* name : kVarying) {
    const Column* const column = known_column(name);
    if (varies(rows, *column)) columns.push_back(column);
  }
  if (options_vary(rows)) columns.push_back(known_column("options"));
  return columns;
}

}  // namespace

bool is_condensed(std::span<const RunRow> rows) {
  return std::ranges::any_of(rows, [](const RunRow& row) { return row.repeated != nullptr; });
}

const std::vector<Column>& run_columns() {
  static const std::vector<Column> columns = make_columns();
  return columns;
}

const Column* find_column(const std::string& name) {
  for (const Column& column : run_columns()) {
    if (column.name == name) return &column;
  }
  for (const Column& column : run_columns()) {
    if (std::ranges::find(column.fields, name, &Field::key) != column.fields.end()) return &column;
  }
  // Headings of two lines are words that need the columns beside them.
  for (const Column& column : run_columns()) {
    if (column.top.empty() && column.bottom == name) return &column;
  }
  return nullptr;
}

bool may_join_table(const Column& column) {
  const auto is_it = [&](const char* name) { return column.name == name; };
  return std::ranges::any_of(kVarying, is_it) || std::ranges::any_of(kForSomeRows, is_it);
}

Columns table_columns(std::span<const RunRow> rows) {
  Columns columns;
  for (const Column& column : run_columns()) {
    if (column.in_table) columns.push_back(&column);
  }
  // The imbalance of dp beside the primary's communication.
  if (std::ranges::any_of(
          rows, [](const RunRow& row) { return others_idle(*row.run).value.has_value(); })) {
    insert_behind("exposed", "others-idle", columns);
  }
  if (std::ranges::any_of(rows, [](const RunRow& row) {
        return row.run->until_accuracy.has_value() && !is_bare(*row.run);
      })) {
    insert_behind("epoch", "to-accuracy", columns);
  }
  // What batch norm exchanges within the passes is no part of the communication beside them.
  if (std::ranges::any_of(
          rows, [](const RunRow& row) { return row.run->phases.contains("sync_batch_norm_s"); })) {
    const auto exposed = std::ranges::find(columns, std::string("exposed"), &Column::name);
    if (exposed != columns.end()) columns.insert(exposed + 1, known_column("sync"));
  }
  const bool repeated =
      std::ranges::any_of(rows, [](const RunRow& row) { return row.run->repetition > 0; });
  // The place after the other columns that say which run it is.
  const auto end_of_keys =
      std::ranges::find_if(columns, [](const Column* column) { return !column->key; });
  const auto place = end_of_keys - columns.begin();
  if (!is_condensed(rows)) {
    if (repeated) columns.insert(end_of_keys, known_column("repetition"));
  } else {
    columns.insert(end_of_keys, known_column("repetitions"));
    for (const Column*& column : columns) {
      const Column* interval = find_column(column->name + "-interval");
      if (interval != nullptr) column = interval;
    }
  }
  const Columns varying = varying_columns(rows);
  columns.insert(columns.begin() + place, varying.begin(), varying.end());
  if (from_several_files(rows)) columns.insert(columns.begin(), known_column("report"));
  return columns;
}

Columns all_columns() {
  Columns columns;
  for (const Column& column : run_columns()) columns.push_back(&column);
  return columns;
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

// ---- what makes columns ----

Field field(const char* key, Role role, GetFact get, Better better) {
  const bool whole = std::string_view(key).ends_with("_bytes");
  return {key, role, better, [get = std::move(get), whole](const RunRow& row) {
            return value_of(get(row), *row.run, whole);
          }};
}

Column with_value(Column column, const char* key, Role role, const GetFact& get) {
  column.fields.push_back(field(key, role, get));
  column.cell = [value = column.fields.back().value](const RunRow& row, Footnotes& notes) {
    const FieldValue found = value(row);
    if (const auto* text = std::get_if<std::string>(&found.value)) return *text;
    if (const auto* count = std::get_if<std::int64_t>(&found.value)) return std::to_string(*count);
    return missing_cell(found.reason, notes);
  };
  return column;
}

Column with_figure(Column column, const char* key, Format format, Figure (*get)(const Run&),
                   Better better) {
  column.fields.push_back(field(
      key, Role::measure, [get](const RunRow& row) { return get(*row.run); }, better));
  column.cell = [get, format](const RunRow& row, Footnotes& notes) {
    return figure_cell(get(*row.run), format, *row.run, notes);
  };
  return column;
}

Column with_phase(Column column, const char* phase) {
  const Format format = std::string_view(phase).ends_with("_ratio") ? kPercentage : kMilliseconds;
  const auto get = [phase](const RunRow& row) { return phase_figure(*row.run, phase); };
  column.fields.push_back(field(phase, Role::measure, get));
  column.cell = [get, format](const RunRow& row, Footnotes& notes) {
    return figure_cell(get(row), format, *row.run, notes);
  };
  return column;
}

Column where_absent(Column column, const char* reason) {
  Field& only = column.fields.front();
  only.value = [get = only.value, reason = std::string(reason)](const RunRow& row) {
    FieldValue value = get(row);
    if (value.value.index() != 0) return value;
    return reason.empty() ? FieldValue{std::string()} : FieldValue{{}, reason};
  };
  column.cell = [get = only.value](const RunRow& row, Footnotes&) -> std::string {
    const Scalar value = get(row).value;
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr || text->empty() ? "-" : *text;
  };
  return column;
}

Figure phase_figure(const Run& run, const std::string& phase) {
  const auto found = run.phases.find(phase);
  return found == run.phases.end() ? Figure{} : found->second;
}

std::string fixed(double value, Format format) {
  return fmt::format("{:.{}f}", value / format.unit, format.decimals);
}

std::string missing_cell(const std::string& reason, Footnotes& notes) {
  return fmt::format("-{}", notes.mark(reason));
}

std::string figure_cell(const Figure& figure, Format format, const Run& run, Footnotes& notes) {
  if (figure.value) return fixed(*figure.value, format);
  return missing_cell(missing_reason(figure, run), notes);
}

std::string status_note(const Run& run) {
  if (run.status == Status::ok) return {};
  std::string why = run.reason;
  if (run.error) why = error_note(*run.error);
  if (run.status == Status::diverged && run.error) return run.error->message;
  return why.empty() ? std::string(to_string(run.status))
                     : fmt::format("{}: {}", to_string(run.status), why);
}

bool is_bare(const Run& run) { return run.status != Status::ok && !run.step.time_s; }

bool has_cell_when_bare(const Column& column, const Run& run) {
  return column.key || (column.name == "verified" && run.verification.status == "failed");
}

}  // namespace ddpbench::report
