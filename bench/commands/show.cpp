// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "bench/commands/report_choice.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "bench/options/option_table.h"
#include "bench/rank/run_memory.h"
#include "reports/exports/records.h"
#include "reports/exports/run_formats.h"
#include "reports/metrics/repetitions.h"
#include "reports/table/table.h"
#include "reports/why/why.h"

namespace ddpbench::bench {
namespace {

using Names = std::vector<std::string>;

const report::Column* column_of(const std::string& option, const std::string& name) {
  const report::Column* column = report::find_column(with_dashes(name));
  if (column == nullptr) column = report::find_column(with_underscores(name));
  if (column == nullptr) check_word("show: " + option, name, names_of(report::run_columns()));
  return column;
}

// One line per column: its name, what it is, and its keys in csv and json.
std::string columns_help() {
  std::string text =
      "Columns of `ddpbench show`, with their keys in csv and json. +: in the table of --full,\n"
      "where a run has a value:\n";
  for (const report::Column& column : report::run_columns()) {
    text += fmt::format("{} {:<16} {} [{}]\n", column.is(report::kUsual) ? '+' : ' ', column.name,
                        column.about, joined(column.fields, ", ", &report::Field::key));
  }
  return text;
}

class Show final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "...", paths_,
                      "Reports to show; several are shown in one table. -: standard input "
                      "(required, except with --columns=help)");
    options.add("--format", "", &format_, "How; docs/exports.md says who reads which",
                one_of(names_of(report::run_formats())));
    options.add("--full", "", &full_, "The table with all usual columns, without a limit of width");
    options.add("--columns", "NAME,...", &columns_,
                "Only these columns of table, markdown, csv and json, in this order; "
                "--columns=help lists them");
    options.add("--sort", "[-]NAME", &sort_, "Order by a column; -NAME for descending");
    filter_.define(options);
    options.add("--memory-per-device", "SIZE", &device_memory_,
                "Name the fastest run that fits such memory of a device, 16GiB");
    options.add(
        "--repetitions", "", &repetitions_,
        "median: a row for each setting, with the median over its repetitions and their interval; "
        "all: a row for each repetition. Of table, markdown, csv and json [median]",
        one_of({"median", "all"}));
    output_.define(options);
  }

  int run() override {
    if (columns_ == Names{"help"}) {
      say("{}", columns_help());
      return 0;
    }
    if (paths_.empty()) throw ConfigError("show: REPORT is missing; name at least one report file");
    const report::RunFormat& format =
        *std::ranges::find(report::run_formats(), format_, &report::RunFormat::name);
    if (!format.columns && (!columns_.empty() || repetitions_)) {
      throw ConfigError(
          fmt::format("show: {} does not apply to --format={}: what it holds is fixed",
                      columns_.empty() ? "--repetitions" : "--columns", format.name));
    }
    const report::Columns named = named_columns();
    output_.check("show", paths_);
    write(format, named);
    return 0;
  }

 private:
  report::Columns named_columns() const {
    report::Columns columns;
    for (const std::string& name : columns_) {
      const report::Column* column = column_of("--columns", name);
      if (std::ranges::find(columns, column) != columns.end()) {
        throw ConfigError(fmt::format("show: --columns: '{}' is named twice", name));
      }
      columns.push_back(column);
    }
    return columns;
  }

  void write(const report::RunFormat& format, const report::Columns& columns) const {
    std::vector<report::ReportFile> files = read_files("show", paths_);
    const int width = output_.width();
    std::string text = collectives_text(format, files, width);
    if (files.empty()) refuse_options_of_runs();
    text += runs_text(format, columns, files, width);
    if (format.name == "table" && !output_.is_file()) {
      say_table(text);
    } else {
      output_.write(text);
    }
  }

  // Takes the reports of `ddpbench comm`, which have no runs, out of `files`; returns their text.
  static std::string collectives_text(const report::RunFormat& format,
                                      std::vector<report::ReportFile>& files, int width) {
    const auto of_runs = std::ranges::stable_partition(
        files, [](const report::ReportFile& file) { return file.report.collectives.empty(); });
    if (of_runs.empty()) return "";
    const std::vector<report::ReportFile> comm(std::make_move_iterator(of_runs.begin()),
                                               std::make_move_iterator(of_runs.end()));
    files.erase(of_runs.begin(), of_runs.end());
    if (format.write_collectives == nullptr) {
      throw ConfigError(
          fmt::format("show: {} holds collectives, which have no --format={}; use one of {}",
                      comm.front().name, format.name, fmt::join(report::record_formats(), ", ")));
    }
    if (!files.empty() && format.name != "table") {
      throw ConfigError(fmt::format(
          "show: {} holds collectives and {} runs; --format={} takes one kind at a time",
          comm.front().name, files.front().name, format.name));
    }
    return format.write_collectives(comm, width);
  }

  // For reports that have no runs.
  void refuse_options_of_runs() const {
    const char* const given = !columns_.empty()    ? "--columns"
                              : sort_              ? "--sort"
                              : repetitions_       ? "--repetitions"
                              : filter_.is_given() ? "choosing among runs"
                                                   : nullptr;
    if (given == nullptr) return;
    throw ConfigError(fmt::format("show: {} does not apply: {} holds collectives (ddpbench comm)",
                                  given, paths_.front()));
  }

  std::string runs_text(const report::RunFormat& format, report::Columns columns,
                        std::vector<report::ReportFile>& files, int width) const {
    if (files.empty()) return {};
    const auto [sort_column, descending] = sorting();
    const std::vector<report::RunRow> rows = filter_.chosen("show", files);
    const bool all = !format.columns || repetitions_.value_or("median") == "all";
    const report::CondensedRows condensed(rows);
    std::vector<report::RunRow> shown = all ? rows : condensed.rows();
    if (sort_column != nullptr) report::sort_rows(shown, *sort_column, descending);
    if (columns.empty()) {
      columns = format.all_columns ? report::all_columns() : report::usual_columns(shown);
    }
    if (format.name != "table") return format.write(shown, columns, width);
    std::string text = report::answer_text(rows, width, asked_memory(device_memory_));
    text += is_compact() ? report::compact_text(shown, width) : format.write(shown, columns, width);
    for (const report::ReportFile& file : files) {
      text += report::interruption_lines(file.report, file.name, width);
    }
    return text;
  }

  // Whether the table is the one that a run prints at its end.
  bool is_compact() const { return !full_ && columns_.empty() && !sort_ && !repetitions_; }

  std::pair<const report::Column*, bool> sorting() const {
    if (!sort_) return {nullptr, false};
    const bool descending = sort_->starts_with('-');
    return {column_of("--sort", sort_->substr(descending ? 1 : 0)), descending};
  }

  Names paths_, columns_;
  RunFilter filter_;
  TextOutput output_;
  std::string format_ = "table", device_memory_;
  std::optional<std::string> sort_, repetitions_;
  bool full_ = false;
};

// Where the time of a step goes.
class WhyCommand final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "...", paths_, "Reports whose runs are explained", true);
    filter_.define(options);
    output_.define(options);
  }

  int run() override {
    output_.check("why", paths_);
    std::vector<report::ReportFile> files = read_files("why", paths_);
    const std::string text =
        report::render_why(filter_.chosen("why", files), text_columns(output_.width()));
    output_.write(text.empty() ? "no run on several devices timed a step\n" : text);
    return 0;
  }

 private:
  Names paths_;
  RunFilter filter_;
  TextOutput output_;
};

}  // namespace

SubcommandEntry why_entry() {
  return {"why", "ddpbench why REPORT... [OPTION]...",
          "say where the time of each setting's step goes, and what would help",
          [] { return std::make_unique<WhyCommand>(); }};
}

SubcommandEntry show_entry() {
  return {"show", "ddpbench show REPORT... [OPTION]...",
          "show runs of one or several reports, or export them",
          [] { return std::make_unique<Show>(); }};
}

}  // namespace ddpbench::bench
