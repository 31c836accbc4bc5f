// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/show.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/terminal.h"
#include "reports/report_reader.h"
#include "reports/why.h"

namespace ddpbench::bench {
namespace {

class Show final : public Subcommand {
 public:
  void define(CLI::App& app) override {
    app.add_option("REPORT", paths_, "Reports to show")->required();
  }

  int run() override {
    for (const std::string& path : paths_) {
      const report::Report report = report::read_report(path);
      fmt::print("{}", report::render_table(report, terminal_width()));
      const std::string why = report::render_why(report, terminal_width());
      if (!why.empty()) fmt::print("\n{}", why);
    }
    return 0;
  }

 private:
  std::vector<std::string> paths_;
};

}  // namespace

SubcommandEntry show_entry() {
  return {"show", "ddpbench show REPORT... [OPTION]...", "show the table of reports again",
          [] { return std::make_unique<Show>(); }};
}

}  // namespace ddpbench::bench
