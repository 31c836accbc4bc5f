// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table_warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/conditions.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

std::vector<std::string> warnings(const Report& report) {
  std::vector<std::string> found = condition_warnings(report);
  const auto noisy = std::ranges::count_if(report.cells, &CellSummary::noisy);
  if (noisy > 0) {
    found.push_back(
        fmt::format("{} of {} settings are noisy: their repetitions do not agree as closely as "
                    "--until-ci asks for",
                    noisy, report.cells.size()));
  }
  const auto restless = std::ranges::count_if(
      report.runs, [](const Run& run) { return run.step.warmup_steady == std::optional(false); });
  if (restless > 0) {
    found.push_back(fmt::format(
        "in {} of {} runs step times were not steady when the warm-up ended at its limit", restless,
        report.runs.size()));
  }
  for (std::string& warning : found) warning = printable(std::move(warning));
  return found;
}

std::string warning_lines(const Report& report, std::size_t width, const std::string& file) {
  const std::string where = file.empty() ? "" : printable(file) + ": ";
  std::string text;
  for (const std::string& warning : warnings(report)) {
    text += wrap("warning: " + where + warning, width, 4);
  }
  if (report.tune) text += wrap(where + printable(report.tune->conclusion), width, 2);
  return text;
}

}  // namespace ddpbench::report
