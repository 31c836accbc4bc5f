// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/show.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/terminal.h"
#include "reports/report_reader.h"

namespace ddpbench::bench {
namespace {

class Show final : public Subcommand {
 public:
  void define(CLI::App& app) override {
    app.add_option("REPORT", paths_, "Reports to show")->required();
  }

  int run() override {
    for (const std::string& path : paths_) {
      fmt::print("{}", report::render_table(report::read_report(path), terminal_width()));
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
