// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What services that follow benchmarks over commits read: github-action-benchmark and Prometheus.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "reports/exports/records.h"
#include "reports/exports/run_formats.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/repetitions.h"

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
// commits: these services compare entries of equal names. Groups are in the order of their first
// runs.
auto clean_runs_by_name(std::span<const RunRow> rows) {
  const auto clean = [](const RunRow& row) {
    return row.run->status == Status::ok && row.run->injected.empty() && !row.run->predicted;
  };
  return grouped(rows | std::views::filter(clean), name_of_setting);
}

// The value as a label; empty where it is missing.
std::string label_of(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  const auto number = value.number();
  return number ? fmt::format("{}", *number) : "";
}

// ---- https://github.com/benchmark-action/github-action-benchmark, customSmallerIsBetter and
// customBiggerIsBetter ----

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

// ---- Prometheus' text exposition format 0.0.4 ----
// https://prometheus.io/docs/instrumenting/exposition_formats/; names and units follow
// https://prometheus.io/docs/practices/naming/. There are no timestamps: the textfile collector
// refuses them.

std::string escaped_label(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"' || c == '\n') result += '\\';
    result += c == '\n' ? 'n' : c;
  }
  return result;
}

// "ddpbench_" and the report's key, changed for Prometheus: units are spelled out, ratios are
// called so, and no name ends in a suffix with a meaning ("_count").
std::string metric_name(const std::string& key) {
  static const std::map<std::string, std::string> special = {
      {"samples_per_s", "samples_per_second"},
      {"samples_per_s_per_device", "samples_per_second_per_device"},
      {"flops_per_s_per_device", "flops_per_second_per_device"},
      {"speedup", "speedup_ratio"},
      {"efficiency", "efficiency_ratio"},
      {"test_accuracy", "test_accuracy_ratio"},
      {"step_count", "timed_steps"}};
  const auto found = special.find(key);
  if (found != special.end()) return "ddpbench_" + found->second;
  return "ddpbench_" + (key.ends_with("_s") ? key + "econds" : key);
}

// The labels, without the braces around them.
std::string labels_of(const RunRow& row, bool name_report) {
  std::string labels;
  for (const Column& column : run_columns()) {
    if (column.name == "report" && !name_report) continue;
    for (const Field& field : column.fields) {
      if (!field.is(kIdentity)) continue;
      const std::string value = label_of(field.value(row));
      if (value.empty()) continue;  // to Prometheus an empty label is an absent one
      if (!labels.empty()) labels += ',';
      labels += fmt::format("{}=\"{}\"", field.key, escaped_label(value));
    }
  }
  return labels;
}

// A label set for each row. They differ: the second run with the same labels gets copy="2".
std::vector<std::string> label_sets(std::span<const RunRow> rows) {
  const bool several = from_several_files(rows);
  std::map<std::string, int> uses;
  std::vector<std::string> sets;
  for (const RunRow& row : rows) {
    std::string labels = labels_of(row, several);
    const int use = ++uses[labels];
    sets.push_back(use == 1 ? labels : fmt::format("{},copy=\"{}\"", labels, use));
  }
  return sets;
}

// A metric with its samples; empty when it has none.
template <typename Value>
std::string metric(const std::string& name, const std::string& help,
                   const std::vector<std::string>& sets, Value value) {
  std::string samples;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::optional<double> number = value(i);
    if (number) samples += fmt::format("{}{{{}}} {}\n", name, sets[i], *number);
  }
  if (samples.empty()) return {};
  return fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{2}", name, escaped_label(help), samples);
}

}  // namespace

std::string github_benchmark_text(std::span<const RunRow> rows, Trait better) {
  Json entries = Json::array();
  for (const auto& [name, same] : clean_runs_by_name(rows)) {
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

std::string prometheus_text(std::span<const RunRow> rows) {
  const std::vector<std::string> sets = label_sets(rows);
  std::string text =
      metric("ddpbench_run_ok", "1 when the run ended well, else 0.", sets,
             [&rows](std::size_t i) { return rows[i].run->status == Status::ok ? 1.0 : 0.0; });
  text += metric("ddpbench_report_finished_timestamp_seconds", "When the report was finished.",
                 sets, [&rows](std::size_t i) -> std::optional<double> {
                   const auto ms = unix_ms(rows[i].report->finished_at);
                   return ms ? std::optional(static_cast<double>(*ms) / 1000) : std::nullopt;
                 });
  for (const Column& column : run_columns()) {
    for (const Field& field : column.fields) {
      if (field.is(kIdentity | kRemark)) continue;
      text +=
          metric(metric_name(field.key), fmt::format("{}; report key {}.", column.about, field.key),
                 sets, [&](std::size_t i) { return field.value(rows[i]).number(); });
    }
  }
  return text.empty() ? "\n" : text;
}

}  // namespace ddpbench::report
