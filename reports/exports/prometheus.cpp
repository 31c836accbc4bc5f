// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Prometheus' text exposition format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). Names and units follow
// https://prometheus.io/docs/practices/naming/. There are no timestamps: the textfile collector
// refuses them.
#include <fmt/format.h>

#include <map>
#include <utility>

#include "reports/exports/export_fields.h"
#include "reports/exports/run_formats.h"

namespace ddpbench::report {
namespace {

std::string escaped_label(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
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
      if (field.role != Role::identity) continue;
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

std::string prometheus_text(std::span<const RunRow> rows) {
  const std::vector<std::string> sets = label_sets(rows);
  std::string text =
      metric("ddpbench_run_ok", "1 when the run ended well, else 0.", sets,
             [&rows](std::size_t i) { return rows[i].run->status == Status::ok ? 1.0 : 0.0; });
  text += metric("ddpbench_report_finished_timestamp_seconds", "When the report was finished.",
                 sets, [&rows](std::size_t i) -> std::optional<double> {
                   const auto finished = unix_ms(rows[i].report->finished_at);
                   if (!finished) return std::nullopt;
                   return static_cast<double>(*finished) / 1000;
                 });
  for (const Column& column : run_columns()) {
    for (const Field& field : column.fields) {
      if (field.role != Role::measure) continue;
      text +=
          metric(metric_name(field.key), fmt::format("{}; report key {}.", column.about, field.key),
                 sets, [&](std::size_t i) { return number_of(field.value(rows[i])); });
    }
  }
  return text.empty() ? "\n" : text;
}

}  // namespace ddpbench::report
