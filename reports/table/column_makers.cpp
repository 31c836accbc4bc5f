// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/column_makers.h"

#include <fmt/format.h>

#include "reports/data/report.h"

namespace ddpbench::report {
namespace {

FieldValue figure_value(const Figure& figure, const Run& run, bool whole) {
  if (!figure.value) return {{}, missing_reason(figure, run)};
  if (whole) return {static_cast<std::int64_t>(*figure.value)};
  return {*figure.value};
}

FieldValue text_value(const std::string& text, const Run& run) {
  if (text.empty()) return {{}, missing_reason(run)};
  return {text};
}

std::string error_note(const ErrorInfo& error) {
  std::string where;
  if (error.rank) where += fmt::format("rank {}, ", *error.rank);
  if (error.step) where += fmt::format("step {}, ", *error.step);
  return fmt::format("{}{}: {}", where, error.kind, error.message);
}

}  // namespace

Figure phase_figure(const Run& run, const std::string& phase) {
  const auto found = run.phases.find(phase);
  return found == run.phases.end() ? Figure{} : found->second;
}

Column heading_only(const Heading& heading) {
  Column column;
  column.name = heading.name;
  column.about = heading.about;
  column.top = heading.top;
  column.bottom = heading.bottom;
  column.joined = heading.joined;
  return column;
}

Field figure_field(const char* key, Better better, Figure (*get)(const Run&)) {
  const bool whole = std::string_view(key).ends_with("_bytes");
  return {key, Role::measure,
          [get, whole](const RunRow& row) { return figure_value(get(*row.run), *row.run, whole); },
          better};
}

Field text_field(const char* key, Role role, std::string (*get)(const RunRow&)) {
  return {key, role, [get](const RunRow& row) { return text_value(get(row), *row.run); }};
}

Field count_field(const char* key, Role role, std::int64_t (*get)(const Run&)) {
  return {key, role, [get](const RunRow& row) { return FieldValue{get(*row.run)}; }};
}

Field flag_field(const char* key, bool (*get)(const Run&)) {
  return {key, Role::remark, [get](const RunRow& row) { return FieldValue{get(*row.run)}; }};
}

Column figure_column(const Heading& heading, const char* key, Format format, Better better,
                     Figure (*get)(const Run&)) {
  Column column = heading_only(heading);
  column.cell = [get, format](const RunRow& row, Footnotes& notes) {
    return figure_cell(get(*row.run), format, *row.run, notes);
  };
  column.fields = {figure_field(key, better, get)};
  return column;
}

Column phase_column(const Heading& heading, const char* phase) {
  const bool ratio = std::string_view(phase).ends_with("_ratio");
  Column column = heading_only(heading);
  column.cell = [phase, ratio](const RunRow& row, Footnotes& notes) {
    return figure_cell(phase_figure(*row.run, phase), ratio ? kPercentage : kMilliseconds, *row.run,
                       notes);
  };
  column.fields = {{phase, Role::measure, [phase](const RunRow& row) {
                      return figure_value(phase_figure(*row.run, phase), *row.run, false);
                    }}};
  return column;
}

Column identity_column(const Heading& heading, const char* key, std::string (*get)(const RunRow&)) {
  Column column = heading_only(heading);
  column.left = true;
  column.cell = [get](const RunRow& row, Footnotes& notes) {
    std::string text = get(row);
    return text.empty() ? missing_cell(missing_reason(*row.run), notes) : text;
  };
  column.fields = {text_field(key, Role::identity, get)};
  return column;
}

Column count_column(const Heading& heading, const char* key, Role role,
                    std::int64_t (*get)(const Run&)) {
  Column column = heading_only(heading);
  column.cell = [get](const RunRow& row, Footnotes&) { return std::to_string(get(*row.run)); };
  column.fields = {count_field(key, role, get)};
  return column;
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
