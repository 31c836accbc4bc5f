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

constexpr const char* kUnrecorded = "not recorded";

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

template <auto kMember>
std::string of(const RunRow& row) {
  return row.run->*kMember;
}

std::string hosts_text(const RunRow& row) {
  return fmt::format("{}", fmt::join(row.report->environment.hosts, "+"));
}

std::string commit_text(const RunRow& row) { return row.report->generator.git_commit.value_or(""); }

struct TextRow {
  const char *name, *top, *bottom, *about, *key;
  std::string (*get)(const RunRow&);
  const char* absent = nullptr;  // where_absent(); null: the run's reason
  Role role = Role::identity;
};

constexpr TextRow kTexts[] = {
    {"device", "", "device", "kind of device", "device", of<&Run::device>},
    {"device-model", "device", "model", "model of the device", "device_model",
     of<&Run::device_model>, kUnrecorded},
    {"backend", "", "backend", "how the devices communicate", "backend", of<&Run::backend>,
     "nothing to communicate, or not recorded"},
    {"precision", "", "precision", "number format", "precision", of<&Run::precision>},
    {"model", "", "model", "network", "model", of<&Run::model>},
    {"dataset", "", "data set", "data set", "dataset", of<&Run::dataset_name>},
    {"data-source", "data", "source", "files or synthetic", "dataset_source",
     of<&Run::dataset_source>, kUnrecorded},
    {"scaling", "scaling", "mode", "weak or strong", "scaling_mode", of<&Run::scaling_mode>},
    {"update", "", "update", "how weights are updated: optimizer and schedule", "update",
     update_text, kUnrecorded},
    {"options", "", "options", "options of the strategy", "strategy_options", options_text, ""},
    {"injected", "", "injected", "planted fault (--inject)", "injected", of<&Run::injected>, ""},
    {"hosts", "", "hosts", "machines of the report", "hosts", hosts_text, kUnrecorded},
    {"commit", "", "commit", "commit of ddpbench", "git_commit", commit_text,
     "not built in a git checkout", Role::remark}};

Column text_column(const TextRow& row) {
  Column column =
      with_value({row.name, row.top, row.bottom, row.about}, row.key, row.role, row.get);
  column.left = true;
  return row.absent == nullptr ? column : where_absent(std::move(column), row.absent);
}

Column count_column(Column heading, const char* key, int Run::*member) {
  return with_value(std::move(heading), key, Role::identity,
                    [member](const RunRow& row) { return std::int64_t{row.run->*member}; });
}

}  // namespace

std::vector<Column> setting_columns() {
  std::vector<Column> columns = {strategy_column(), devices_column(), batch_column()};
  for (Column& column : columns) column.in_table = true;
  columns.push_back(text_column({"report", "", "report", "file that the run is from", "report",
                                 [](const RunRow& row) { return row.file; }, "not from a file"}));
  columns.push_back(repetition_column());
  for (Column& column : columns) column.key = column.name != "batch";
  columns.push_back(status_column());
  for (const TextRow& row : kTexts) columns.push_back(text_column(row));
  columns.push_back(count_column({"threads", "", "threads", "compute threads a device"},
                                 "threads_per_device", &Run::threads_per_device));
  columns.push_back(count_column({"accumulation", "accum.", "steps", "gradient accumulation steps"},
                                 "accumulation_steps", &Run::accumulation_steps));
  return columns;
}

}  // namespace ddpbench::report
