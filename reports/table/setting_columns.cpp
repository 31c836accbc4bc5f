// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The columns that say which run it is and where it comes from.
#include <fmt/format.h>

#include "reports/data/settings.h"
#include "reports/metrics/repetitions.h"
#include "reports/table/columns.h"

namespace ddpbench::report {
namespace {

constexpr const char* kNotRecorded = "not recorded";

Column strategy_column() {
  Column column = {.name = "strategy", .bottom = "strategy", .left = true};
  for (const StrategyRow& row : strategy_rows()) {
    column.about += fmt::format("{}{}", column.about.empty() ? "" : ", ", row.name);
  }
  return with_value(std::move(column), "strategy", Role::identity,
                    [](const RunRow& row) { return row.run->strategy; });
}

// "2+1*(3)": two workers and a server, oversubscribed, with a note on the whole run.
std::string devices_cell(const RunRow& row, Footnotes& notes) {
  const Run& run = *row.run;
  std::string cell = std::to_string(run.world_size);
  if (run.servers > 0) cell += fmt::format("+{}", run.servers);
  if (run.oversubscribed) cell += '*';
  if (run.status != Status::ok && !is_bare(run)) cell += notes.mark(status_note(run));
  if (!run.injected.empty()) cell += notes.mark("injected: " + run.injected);
  if (row.repeated != nullptr && !row.repeated->note.empty()) {
    cell += notes.mark(row.repeated->note);
  }
  if (!row.marks.empty()) cell += fmt::format("[{}]", row.marks);
  return cell;
}

Column devices_column() {
  return {.name = "devices",
          .bottom = "devices",
          .about = "replicas, +parameter servers, * when oversubscribed",
          .left = true,
          .cell = devices_cell,
          .fields = {field("world_size", Role::identity,
                           [](const RunRow& row) { return std::int64_t{row.run->world_size}; }),
                     field("servers", Role::identity,
                           [](const RunRow& row) { return std::int64_t{row.run->servers}; }),
                     field("oversubscribed", Role::remark,
                           [](const RunRow& row) { return row.run->oversubscribed; })}};
}

Column batch_column() {
  return {.name = "batch",
          .top = "batch",
          .bottom = "each/all",
          .about = "batch per device and of a step",
          .cell =
              [](const RunRow& row, Footnotes& notes) {
                const Run& run = *row.run;
                if (run.per_device_batch_size == 0) {
                  return missing_cell("the batch size is not recorded", notes);
                }
                return fmt::format("{}/{}", run.per_device_batch_size, run.global_batch_size);
              },
          .fields = {field("per_device_batch_size", Role::identity,
                           [](const RunRow& row) { return row.run->per_device_batch_size; }),
                     field("global_batch_size", Role::identity,
                           [](const RunRow& row) { return row.run->global_batch_size; })}};
}

Column repetition_column() {
  Column column = {.name = "repetition",
                   .bottom = "rep.",
                   .about = "number of the repetition, from 1 (key: from 0)"};
  column.fields = {
      {"repetition", Role::identity, Better::neither, [](const RunRow& row) -> FieldValue {
         if (row.repeated == nullptr) return {std::int64_t{row.run->repetition}};
         return {{}, "the row stands for all repetitions"};
       }}};
  // Counts like the progress lines.
  column.cell = [](const RunRow& row, Footnotes&) {
    return row.repeated != nullptr ? "all" : std::to_string(row.run->repetition + 1);
  };
  return column;
}

Column status_column() {
  Column column = with_value({.name = "status",
                              .bottom = "status",
                              .about = "ok, diverged, failed, skipped, interrupted",
                              .left = true},
                             "status", Role::remark, [](const RunRow& row) {
                               return std::string(to_string(row.run->status));
                             });
  column.cell = [](const RunRow& row, Footnotes& notes) {
    const std::string word(to_string(row.run->status));
    return row.run->status == Status::ok ? word : word + notes.mark(status_note(*row.run));
  };
  return column;
}

std::string options_text(const RunRow& row) {
  std::vector<std::string> words;
  for (const auto& [name, value] : row.run->strategy_options) words.push_back(name + "=" + value);
  return fmt::format("{}", fmt::join(words, ","));
}

// "adam,lr=0.001,lr_schedule=cosine": name, numbers and choices of the optimizer.
std::string update_text(const RunRow& row) {
  const Run& run = *row.run;
  if (run.optimizer_name.empty() || run.optimizer_name == "unknown") return "";  // of an import
  std::vector<std::string> words = {run.optimizer_name};
  for (const auto& [name, value] : run.optimizer) {
    words.push_back(fmt::format("{}={}", name, value));
  }
  for (const auto& [name, value] : run.optimizer_choices) words.push_back(name + "=" + value);
  return fmt::format("{}", fmt::join(words, ","));
}

Column text_column(const char* name, const char* top, const char* bottom, const char* about,
                   const char* key, std::string (*get)(const RunRow&), Role role = Role::identity) {
  return with_value({.name = name, .top = top, .bottom = bottom, .about = about, .left = true}, key,
                    role, get);
}

Column count_column(const char* name, const char* top, const char* bottom, const char* about,
                    const char* key, int Run::*member) {
  return with_value({.name = name, .top = top, .bottom = bottom, .about = about}, key,
                    Role::identity,
                    [member](const RunRow& row) { return std::int64_t{row.run->*member}; });
}

std::vector<Column> configuration_columns() {
  return {text_column("device", "", "device", "kind of device", "device",
                      [](const RunRow& row) { return row.run->device; }),
          where_absent(
              text_column("device-model", "device", "model", "model of the device", "device_model",
                          [](const RunRow& row) { return row.run->device_model; }),
              kNotRecorded),
          count_column("threads", "", "threads", "compute threads a device", "threads_per_device",
                       &Run::threads_per_device),
          where_absent(text_column("backend", "", "backend", "how the devices communicate",
                                   "backend", [](const RunRow& row) { return row.run->backend; }),
                       "nothing to communicate, or not recorded"),
          text_column("precision", "", "precision", "number format", "precision",
                      [](const RunRow& row) { return row.run->precision; }),
          text_column("model", "", "model", "network", "model",
                      [](const RunRow& row) { return row.run->model; }),
          text_column("dataset", "", "data set", "data set", "dataset",
                      [](const RunRow& row) { return row.run->dataset_name; }),
          where_absent(
              text_column("data-source", "data", "source", "files or synthetic", "dataset_source",
                          [](const RunRow& row) { return row.run->dataset_source; }),
              kNotRecorded),
          count_column("accumulation", "accum.", "steps", "gradient accumulation steps",
                       "accumulation_steps", &Run::accumulation_steps),
          text_column("scaling", "scaling", "mode", "weak or strong", "scaling_mode",
                      [](const RunRow& row) { return row.run->scaling_mode; }),
          where_absent(
              text_column("update", "", "update", "how weights are updated: optimizer and schedule",
                          "update", update_text),
              kNotRecorded),
          where_absent(text_column("options", "", "options", "options of the strategy",
                                   "strategy_options", options_text),
                       ""),
          where_absent(text_column("injected", "", "injected", "planted fault (--inject)",
                                   "injected", [](const RunRow& row) { return row.run->injected; }),
                       ""),
          where_absent(text_column("hosts", "", "hosts", "machines of the report", "hosts",
                                   [](const RunRow& row) {
                                     return fmt::format(
                                         "{}", fmt::join(row.report->environment.hosts, "+"));
                                   }),
                       kNotRecorded),
          where_absent(
              text_column(
                  "commit", "", "commit", "commit of ddpbench", "git_commit",
                  [](const RunRow& row) { return row.report->generator.git_commit.value_or(""); },
                  Role::remark),
              "not built in a git checkout")};
}

}  // namespace

std::vector<Column> setting_columns() {
  std::vector<Column> columns = {strategy_column(), devices_column(), batch_column()};
  for (Column& column : columns) column.in_table = true;
  columns.push_back(where_absent(text_column("report", "", "report", "file that the run is from",
                                             "report", [](const RunRow& row) { return row.file; }),
                                 "not from a file"));
  columns.push_back(repetition_column());
  for (Column& column : columns) column.key = column.name != "batch";
  columns.push_back(status_column());
  for (Column& column : configuration_columns()) columns.push_back(std::move(column));
  return columns;
}

}  // namespace ddpbench::report
