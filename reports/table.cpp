// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The summary table: what all runs share above, a row a run, the reasons of missing figures below.
#include <fmt/format.h>

#include <algorithm>

#include "reports/report.h"
#include "reports/table_cells.h"
#include "reports/table_layout.h"
#include "reports/table_warnings.h"

namespace ddpbench::report {
namespace {

// What `describe` says of the runs, each thing once.
template <typename Describe>
std::string each_once(const Report& report, Describe describe) {
  std::vector<std::string> words;
  for (const Run& run : report.runs) {
    std::string word = describe(run);
    if (!word.empty() && std::ranges::find(words, word) == words.end()) {
      words.push_back(std::move(word));
    }
  }
  return fmt::format("{}", fmt::join(words, " / "));
}

std::string caption(const Report& report) {
  const std::vector<std::string> parts = {
      each_once(report, [](const Run& run) { return run.model; }) + " on " +
          each_once(report,
                    [](const Run& run) {
                      return run.dataset_source.empty()
                                 ? run.dataset_name
                                 : fmt::format("{} ({})", run.dataset_name, run.dataset_source);
                    }),
      each_once(report,
                [](const Run& run) {
                  return run.device_model.empty()
                             ? run.device
                             : fmt::format("{} ({})", run.device, run.device_model);
                }),
      each_once(report,
                [](const Run& run) {
                  return fmt::format("{} thread{} a device", run.threads_per_device,
                                     run.threads_per_device == 1 ? "" : "s");
                }),
      each_once(report, [](const Run& run) { return run.precision; }),
      each_once(report, [](const Run& run) { return run.scaling_mode + " scaling"; })};
  return printable(fmt::format("{}", fmt::join(parts, ", ")));
}

bool any_run(const Report& report, bool (*holds)(const Run&)) {
  return std::ranges::any_of(report.runs, holds);
}

std::string footnote_lines(const Report& report, const Footnotes& notes, std::size_t width) {
  std::string text;
  if (any_run(report, [](const Run& run) { return run.servers > 0; })) {
    text += wrap("+n: n parameter servers beside the workers", width, 4);
  }
  if (any_run(report, [](const Run& run) { return run.oversubscribed; })) {
    text +=
        wrap("*: oversubscribed, more compute threads than cores; no scaling is shown", width, 4);
  }
  for (std::size_t i = 0; i < notes.reasons().size(); ++i) {
    text += wrap(fmt::format("({}) {}", i + 1, printable(notes.reasons()[i])), width, 4);
  }
  return text + warning_lines(report, width);
}

}  // namespace

std::string render_table(const Report& report, int width) {
  if (report.runs.empty()) return "no runs\n";
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  Footnotes notes;
  const TextTable table = run_table(report, notes);
  std::string text = wrap(caption(report), columns, 2) + '\n' + render_blocks(table, columns);
  const std::string below = footnote_lines(report, notes, columns);
  return below.empty() ? text : text + '\n' + below;
}

}  // namespace ddpbench::report
