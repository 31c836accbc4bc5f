// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0

#include "base/error.h"
#include "bench/commands/report_choice.h"
#include "bench/commands/subcommand.h"
#include "bench/host/terminal.h"
#include "bench/rank/run_memory.h"
#include "reports/data/report_view.h"
#include "reports/html/page.h"

namespace ddpbench::bench {
namespace {

// The page's name for each file: the short name where names differ (report_view.h).
std::vector<std::string> page_names(std::span<const report::ReportFile> files) {
  std::vector<std::string> names = mapped(files, &report::ReportFile::name);
  for (const report::RunRow& row : report::all_runs(files)) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (row.run == files[i].report.runs.data()) names[i] = row.file;
    }
  }
  return names;
}

class Html final : public Subcommand {
 public:
  void define(CommandOptions& options) override {
    options.add_words("REPORT", "...", paths_,
                      "Reports that the page shows side by side. -: standard input", true);
    options.add_words("--baseline", "BASE...", baseline_,
                      "Reports to hold these against: the page says what `ddpbench check` says");
    filter_.define(options);
    options.add("--memory-per-device", "SIZE", &device_memory_,
                "Name the fastest run that fits such memory of a device, 16GiB");
    output_.define(options,
                   "Page to write; the first report's name with .html in the working directory "
                   "when not given");
  }

  int run() override {
    output_.name_after(paths_.front(), ".html", "html");
    output_.check("html", paths_);
    output_.check("html", baseline_);
    if (!baseline_.empty()) refuse_repeated("html", paths_, baseline_);
    std::vector<report::ReportFile> files = read_files("html", paths_);
    filter_.apply("html", files);
    report::HtmlInput input{page_names(files), {}, {}, asked_memory(device_memory_)};
    input.reports = reports_of(std::move(files));
    if (!baseline_.empty()) input.gate = gate(input.reports);
    output_.write(report::html_page(input));
    if (output_.is_file()) say("page: {}\n", output_.path);
    return 0;
  }

 private:
  // The page only informs: a pair that cannot be compared is a sentence on it, not a failure.
  report::HtmlGate gate(const std::vector<report::Report>& candidate) const {
    const std::vector<report::Report> base = reports_of(read_files("html", baseline_));
    try {
      return {baseline_, report::check_reports(candidate, base, {})};
    } catch (const ConfigError& error) {
      return {baseline_, {.refusal = error.what()}};
    }
  }

  std::vector<std::string> paths_, baseline_;
  std::string device_memory_;
  RunFilter filter_;
  TextOutput output_;
};

}  // namespace

SubcommandEntry html_entry() {
  return {"html", "ddpbench html REPORT... [--baseline BASE...] [OPTION]...",
          "make a page for the browser from reports", [] { return std::make_unique<Html>(); }};
}

}  // namespace ddpbench::bench
