// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What github-action-benchmark reads, which follows benchmarks over commits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "reports/exports/records.h"
#include "reports/exports/run_formats.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/noise.h"

namespace ddpbench::report {
namespace {

std::string name_of_setting(const RunRow& row) {
  const Run& run = *row.run;
  std::string devices = std::to_string(run.world_size);
  if (run.servers > 0) devices += fmt::format("+{}", run.servers);
  std::string name =
      fmt::format("{} {} x {}, {}{}, batch {}/{} {}, {}, threads {}, {}", run.strategy, devices,
                  run.device_model.empty() ? run.device : run.device_model, run.model,
                  run.dataset_name.empty() ? "" : " on " + run.dataset_name,
                  run.per_device_batch_size, run.global_batch_size, run.scaling_mode, run.precision,
                  run.threads_per_device, run.backend.empty() ? "no backend" : run.backend);
  if (run.accumulation_steps > 1) name += fmt::format(", {} steps", run.accumulation_steps);
  for (const auto& [key, value] : run.strategy_options) name += fmt::format(", {}={}", key, value);
  if (run.oversubscribed) name += ", oversubscribed";
  return name;
}

// The runs that ended well without planted faults, grouped by name. A name contains the device
// model and all settings that must be equal for a comparison, and nothing that differs between
// commits: that service compares entries of equal names. Groups are in the order of their first
// runs.
auto clean_runs_by_name(std::span<const RunRow> rows) {
  const auto clean = [](const RunRow& row) {
    return row.run->status == Status::ok && row.run->injected.empty() && !row.run->predicted;
  };
  return grouped(rows | std::views::filter(clean), name_of_setting);
}

std::string unit_of(const std::string& key) {
  if (key == "samples_per_s") return "samples/s";
  if (key.ends_with("_bytes")) return "bytes";
  if (key.ends_with("_s")) return "s";
  return "ratio";
}

// "± half the interquartile range": of the repetitions, or of the steps of a single one. Empty for
// a single value of another figure.
std::string range_of(const Field& field, const std::vector<RunRow>& rows,
                     const std::vector<double>& values) {
  if (values.size() > 1) return fmt::format("± {:.3g}", *summarize(values).iqr.value / 2);
  const auto& time = rows.front().run->step.time_s;
  const bool known = field.key == "step_time_median_s" && time && time->iqr.value;
  return known ? fmt::format("± {:.3g}", *time->iqr.value / 2) : "";
}

std::string extra_of(const std::vector<RunRow>& rows, std::size_t values) {
  const RunRow& first = rows.front();
  return fmt::format("repetitions: {}\nsteps: {}\n{}", values, first.run->step.count,
                     build_words(first.report->generator));
}

// Six digits, and large numbers whole: the action shows every digit in its comments.
Json short_number(double value) {
  if (std::abs(value) >= 1e5 && std::abs(value) < 1e15) return std::llround(value);
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

void append_entry(Json& entries, const std::string& name, const Field& field,
                  const std::vector<RunRow>& rows) {
  std::vector<double> values;
  for (const RunRow& row : rows) {
    if (const auto number = field.value(row).number()) values.push_back(*number);
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

std::string github_benchmark_text(std::span<const RunRow> rows, Trait better) {
  Json entries = Json::array();
  const auto doubts = doubts_of(rows);
  std::vector<RunRow> judged(rows.begin(), rows.end());
  for (RunRow& row : judged) row.doubt = doubts.at(row.run);
  for (const auto& [name, same] : clean_runs_by_name(judged)) {
    for (const Column& column : run_columns()) {
      for (const Field& field : column.fields) {
        if (field.is(better)) append_entry(entries, name, field, same);
      }
    }
  }
  return json_text(entries);
}

std::optional<std::int64_t> unix_ms(const std::string& utc) {
  constexpr const char* kForm = "%Y-%m-%dT%H:%M:%SZ";
  std::tm time{};
  const char* const end = ::strptime(utc.c_str(), kForm, &time);
  if (end == nullptr) return std::nullopt;
  const std::time_t seconds = ::timegm(&time);  // makes a day of its month of it
  char written[32];
  const std::size_t size = std::strftime(written, sizeof written, kForm, &time);
  if (utc != std::string_view(written, size)) return std::nullopt;
  return std::int64_t{1000} * seconds;
}

}  // namespace ddpbench::report
