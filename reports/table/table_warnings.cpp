// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table_warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/gpu_warnings.h"
#include "reports/table/cell_lines.h"

namespace ddpbench::report {

namespace {

// "ddp on 2 devices / ps on 2 devices", at most five and how many more.
std::string noisy_names(const Report& report) {
  constexpr std::size_t kNamed = 5;
  const std::vector<std::string> names = cell_names(report);
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!report.cells[i].noisy || ++count > kNamed) continue;
    text += (text.empty() ? "" : " / ") + names[i];
  }
  return count > kNamed ? fmt::format("{} / {} more", text, count - kNamed) : text;
}

}  // namespace

std::vector<std::string> warnings(const Report& report) {
  std::vector<std::string> found = condition_warnings(report);
  for (std::string& warning : gpu_warnings(report)) found.push_back(std::move(warning));
  const auto noisy = std::ranges::count_if(report.cells, &CellSummary::noisy);
  if (noisy > 0) {
    found.push_back(
        fmt::format("{} of {} settings are noisy: their repetitions do not agree as closely as "
                    "--until-ci asks for ({})",
                    noisy, report.cells.size(), noisy_names(report)));
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
