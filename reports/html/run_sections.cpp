// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The tables of runs and of collectives, with the columns (columns.h), cells and notes of the
// terminal, and the facts that a reader needs to believe a report or to repeat it: machine,
// software, command and configuration.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "reports/data/report.h"
#include "reports/html/page.h"
#include "reports/html/sections.h"
#include "reports/json/json_text.h"
#include "reports/metrics/repetitions.h"
#include "reports/pictures/picture.h"
#include "reports/pictures/svg.h"
#include "reports/table/columns.h"
#include "reports/table/table.h"

namespace ddpbench::report::html {
namespace {

// The columns that name a row, and those of work and traffic that say something of any.
Columns work_columns(const std::vector<RunRow>& rows) {
  Columns columns = name_columns(rows);
  for (const char* name :
       {"busy", "flops", "peak-share", "messages", "wire", "updates", "staleness", "skipped"}) {
    const Column* const column = find_column(name);
    const auto says_something = [column](const RunRow& row) {
      return column->fields.front().value(row).value.index() != 0;
    };
    if (std::ranges::any_of(rows, says_something)) columns.push_back(column);
  }
  return columns;
}

// The cells and notes of the terminal's table, sorted by each column's first field.
Table table_of(const char* caption, const std::vector<RunRow>& rows, const Columns& columns) {
  std::vector<std::string> notes;
  Table table = page_table(run_table(rows, columns, notes), caption);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    table.columns[c].about = columns[c]->about;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const FieldValue value = columns[c]->fields.front().value(rows[r]);
      table.rows[r][c].order = value.number();
      table.rows[r][c].missing = value.value.index() == 0;
    }
  }
  table.notes = std::move(notes);
  table.cards = true;
  return table;
}

void write_collectives(Markup& page, const std::string& name, const Report& report) {
  page.open("article").leaf("h3", name);
  const CollectiveTables tables = collective_tables(report);
  Table table = page_table(tables.collectives, tables.caption);
  // Its texts have several units.
  const auto size = std::ranges::find(table.columns, "size", &TableColumn::head);
  const auto column = static_cast<std::size_t>(size - table.columns.begin());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    table.rows[i][column].order = static_cast<double>(report.collectives[i].bytes);
  }
  table.notes = tables.notes;
  write_table(page, table);
  if (!tables.bandwidth.columns.empty()) {
    write_table(page, page_table(tables.bandwidth, "Memory bandwidth"));
  }
  page.close().trusted("\n");
}

using pictures::memory_unit;
using pictures::with_unit;

std::string bytes(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  return with_unit(value, memory_unit(value));
}

// Names and values; an empty value is not known.
using Facts = std::vector<std::pair<std::string, std::string>>;

void write_facts(Markup& page, const Facts& facts) {
  page.open("dl", {{"class", "facts"}});
  for (const auto& [name, value] : facts) {
    if (!value.empty()) page.open("div").leaf("dt", name).leaf("dd", value).close();
  }
  page.close();
}

void write_environment(Markup& page, const Report& report) {
  const Environment& environment = report.environment;
  const CpuInfo& cpu = environment.cpu;
  page.open("details").leaf("summary", "Environment");
  Facts facts = {{"hosts", joined(environment.hosts, ", ")},
                 {"launcher", environment.launcher},
                 {"system", environment.operating_system},
                 {"kernel", environment.kernel},
                 {"TCP congestion control", environment.tcp_congestion_control},
                 {"processor", cpu.model},
                 {"cores", fmt::format("{} ({} logical processors)", cpu.cores, cpu.processors)},
                 {"caches", fmt::format("L2 {}, L3 {}", bytes(cpu.l2_bytes), bytes(cpu.l3_bytes))},
                 {"memory", bytes(cpu.memory_bytes)},
                 {"instructions", joined(cpu.features, " ")}};
  for (const GpuInfo& gpu : environment.gpus) {
    facts.emplace_back(
        "GPU", fmt::format("{}, {}, driver {}", gpu.name, bytes(gpu.memory_bytes), gpu.driver));
  }
  facts.insert(facts.end(), environment.libraries.begin(), environment.libraries.end());
  for (const auto& [name, value] : environment.variables) facts.emplace_back("$" + name, value);
  write_facts(page, facts);
}

std::string pretty(const std::string& json) {
  const auto value = nlohmann::ordered_json::parse(json, nullptr, false);
  return value.is_discarded() ? json : json_text(value);
}

void write_details(Markup& page, const std::string& name, const Report& report) {
  page.open("article").leaf("h3", name);
  const auto time = [](const std::string& utc) { return utc.empty() ? "not recorded" : utc; };
  write_facts(page, {{"status", std::string(to_string(report.status))},
                     {"started", time(report.started_at)},
                     {"finished", time(report.finished_at)},
                     {"program", build_words(report.generator)}});
  page.open("details").leaf("summary", "Command");
  page.leaf("pre", {{"tabindex", "0"}}, joined(report.argv, " ")).close();
  write_environment(page, report);
  page.close();
  page.open("details").leaf("summary", "Configuration");
  page.leaf("pre", {{"tabindex", "0"}}, pretty(report.config_json)).close();
  page.close().trusted("\n");
}

}  // namespace

std::vector<RunRow> rows_of(const HtmlInput& input) {
  std::vector<RunRow> rows;
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const std::string file = input.reports.size() > 1 ? input.names[i] : "";
    std::ranges::move(all_runs(input.reports[i], file), std::back_inserter(rows));
  }
  return rows;
}

void write_runs(Markup& page, const HtmlInput& input) {
  const std::vector<RunRow> rows = rows_of(input);
  const CondensedRows condensed(rows);
  std::vector<std::string> notes;
  Table table = page_table(compact_table(condensed.rows(), notes), "What is needed to choose");
  table.notes = std::move(notes);
  table.cards = true;
  write_table(page, table);
  const std::vector<RunRow>& settings = condensed.rows();
  write_folded_table(page, "All columns",
                     table_of("All settings", settings, usual_columns(settings)));
  if (is_condensed(settings))
    write_folded_table(page, "Every repetition", table_of("All runs", rows, usual_columns(rows)));
  if (const Columns work = work_columns(settings); work.size() > name_columns(settings).size())
    write_folded_table(page, "Work and traffic",
                       table_of("How busy devices were, and what a step sent", settings, work));
}

void write_collectives(Markup& page, const HtmlInput& input) {
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    if (input.reports[i].collectives.empty()) continue;
    write_collectives(page, input.names[i], input.reports[i]);
  }
  const BandwidthChart chart = bandwidth_chart(input.reports);
  if (chart.empty_reason.empty())
    write_figure(page, pictures::bandwidth_picture(chart, pictures::Medium::page));
}

void write_details(Markup& page, const HtmlInput& input) {
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    write_details(page, input.names[i], input.reports[i]);
  }
}

}  // namespace ddpbench::report::html
