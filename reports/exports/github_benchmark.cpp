// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The JSON that https://github.com/benchmark-action/github-action-benchmark reads with its tools
// customSmallerIsBetter and customBiggerIsBetter. It compares entries of equal names. So a name
// holds all settings that must be equal, with the device model, and nothing that differs between
// commits.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "reports/exports/export_fields.h"
#include "reports/exports/run_formats.h"
#include "reports/json/json_text.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

std::string unit_of(const std::string& key) {
  if (key == "samples_per_s") return "samples/s";
  if (key.ends_with("_bytes")) return "bytes";
  if (key.ends_with("_s")) return "s";
  return "ratio";
}

// "± half the interquartile range": of the repetitions, or of the steps of a single one. Empty for
// a single value of another figure.
std::string range_of(const Field& field, const std::vector<const RunRow*>& rows,
                     const std::vector<double>& values) {
  if (values.size() > 1) return fmt::format("± {:.3g}", *summarize(values).iqr.value / 2);
  const auto& time = rows.front()->run->step.time_s;
  const bool known = field.key == "step_time_median_s" && time && time->iqr.value;
  return known ? fmt::format("± {:.3g}", *time->iqr.value / 2) : "";
}

std::string extra_of(const std::vector<const RunRow*>& rows, std::size_t values) {
  const RunRow& first = *rows.front();
  std::string extra = fmt::format("repetitions: {}\nsteps: {}\nddpbench {}", values,
                                  first.run->step.count, first.report->generator.version);
  const auto& commit = first.report->generator.git_commit;
  return commit ? extra + " " + *commit : extra;
}

// Six digits, and large numbers whole: the action shows every digit in its comments.
Json short_number(double value) {
  if (std::abs(value) >= 1e5 && std::abs(value) < 1e15) return std::llround(value);
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

void append_entry(Json& entries, const std::string& name, const Field& field,
                  const std::vector<const RunRow*>& rows) {
  std::vector<double> values;
  for (const RunRow* row : rows) {
    if (const auto number = number_of(field.value(*row))) values.push_back(*number);
  }
  if (values.empty()) return;
  Json entry = {{"name", fmt::format("{}: {}", name, field.key)},
                {"unit", unit_of(field.key)},
                {"value", short_number(median(values))}};
  const std::string range = range_of(field, rows, values);
  if (!range.empty()) entry["range"] = range;
  entry["extra"] = extra_of(rows, values.size());
  entries.push_back(std::move(entry));
}

}  // namespace

std::string github_benchmark_text(std::span<const RunRow> rows, Better direction) {
  Json entries = Json::array();
  for (const auto& [name, same] : clean_runs_by_name(rows)) {
    for (const Column& column : run_columns()) {
      for (const Field& field : column.fields) {
        if (field.better == direction) append_entry(entries, name, field, same);
      }
    }
  }
  return json_text(entries);
}

}  // namespace ddpbench::report
