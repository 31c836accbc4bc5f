// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "bench/commands/report_choice.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "reports/exports/run_formats.h"
#include "reports/json/report_json.h"
#include "reports/table/table.h"

namespace ddpbench::bench {
namespace {

class HistoryCommand final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "...", paths_,
                      "Reports of several commits; those of one commit are repetitions", true);
    options.add("--format", "", &format_, "otava: a CSV in the layout that Apache Otava reads",
                one_of({"table", "otava"}));
    options.add("-o,--output", "FILE", &output_, "Write to this file instead of standard output");
    options.add("--force", "", &force_, "Overwrite FILE");
    options.set_footer(
        "Commits are in the order in which they were measured; in that of the command line where "
        "that is not recorded of all (imports). `ddpbench html` shows the same of several "
        "commits.");
  }

  int run() override {
    refuse_twice_on_one_side("history", paths_);
    if (output_ == kStandardStream) output_.clear();
    if (!output_.empty()) check_output("history", output_, paths_, force_);
    std::vector<report::ReportFile> files;
    for (const std::string& path : paths_) files.push_back(read(path));
    const report::History history = report::history_of(report::all_runs(files));
    const int width = output_.empty() ? terminal_width() : 0;
    const std::string text =
        format_ == "otava" ? report::otava_csv(history) : report::render_history(history, width);
    if (output_.empty()) {
      say("{}", text);
    } else {
      write_file(output_, text, {.force = force_});
      say("history: {}\n", output_);
    }
    return 0;
  }

 private:
  static report::ReportFile read(const std::string& path) {
    report::ReportFile file{path, report::read_report(path)};
    if (file.report.collectives.empty()) return file;
    throw ConfigError(fmt::format(
        "history: {} holds collectives (ddpbench comm), and a history is of runs", path));
  }

  std::vector<std::string> paths_;
  std::string format_ = "table", output_;
  bool force_ = false;
};

}  // namespace

SubcommandEntry history_entry() {
  return {"history", "ddpbench history REPORT... [OPTION]...",
          "show each setting's median step over the commits of many reports",
          [] { return std::make_unique<HistoryCommand>(); }};
}

}  // namespace ddpbench::bench
