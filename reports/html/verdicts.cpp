// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The sections on why runs are not faster and on whether they computed the right thing.
#include <fmt/format.h>

#include <algorithm>

#include "reports/data/run_names.h"
#include "reports/html/sections.h"
#include "reports/pictures/numbers.h"
#include "reports/why/why.h"

namespace ddpbench::report::html {
namespace {

using pictures::fixed;

constexpr std::size_t kMostVerdicts = 60;  // the most verdicts on one page

Cell part_cell(const Figure& figure, double unit, int decimals) {
  return figure.value ? cell(*figure.value, fixed(*figure.value / unit, decimals)) : missing_cell();
}

Table parts_table(const Verdict& verdict) {
  Table table{
      "Parts of a step", {{"part", true}, {"ms"}, {"share, %"}, {"beyond single, ms"}}, {}, {}};
  for (const VerdictPart& part : verdict.parts) {
    table.rows.push_back({cell(part.title), part_cell(part.seconds, 1e-3, 2),
                          part_cell(part.share, 0.01, 1), part_cell(part.lost_s, 1e-3, 2)});
  }
  return table;
}

void write_verdict(Markup& page, const std::string& name, const Verdict& verdict) {
  page.open("article", {{"class", "verdict"}}).leaf("h3", name);
  page.leaf("p", sentence(verdict.sentence));
  if (!verdict.advice.empty()) {
    page.open("p", {{"class", "advice"}}).leaf("strong", "What would help: ");
    page.text(sentence(verdict.advice)).close();
  }
  if (!verdict.parts.empty()) write_folded_table(page, "Parts of a step", parts_table(verdict));
  page.close().trusted("\n");
}

// "conv1.weight in step 2"; older reports have no step.
std::string worst_place(const Verification& verification) {
  if (!verification.worst_step) return verification.worst_tensor;
  return fmt::format("{} in step {}", verification.worst_tensor, *verification.worst_step);
}

std::vector<Cell> verification_row(const std::string& name, const Verification& verification) {
  Cell status = cell(verification.status);
  if (verification.status == "passed") status.kind = "good";
  if (verification.status == "failed") status.kind = "bad";
  const auto small = [](const Figure& figure) {
    return figure.value ? cell(*figure.value, fmt::format("{:.2g}", *figure.value))
                        : missing_cell();
  };
  const auto& equal = verification.replicas_bit_equal;
  return {cell(name),
          std::move(status),
          small(verification.max_relative_error),
          small(verification.tolerance),
          equal ? cell(*equal ? "yes" : "no") : missing_cell(),
          verification.worst_tensor.empty() ? missing_cell() : cell(worst_place(verification)),
          verification.reason.empty() ? missing_cell() : cell(verification.reason)};
}

// "ddp on 2 devices (batch 32), repetition 1 (a.json)"; the file only where there are several.
std::string heading(const HtmlInput& input, std::size_t report, const RunNames& names,
                    const Run& run) {
  const std::string name = names.with_repetition(run);
  return input.reports.size() > 1 ? fmt::format("{} ({})", name, input.names[report]) : name;
}

}  // namespace

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] -= 'a' - 'A';
  return text + ".";
}

bool has_verdicts(const HtmlInput& input) {
  return std::ranges::any_of(
      input.reports, [](const Report& report) { return !median_repetitions(report).empty(); });
}

void write_verdicts(Markup& page, const HtmlInput& input) {
  open_section(page, "verdicts", "Why not faster");
  page.leaf("p", {{"class", "about"}},
            "Each run on several devices against one device; of repetitions, the one with the "
            "median step time.");
  std::size_t shown = 0, left_out = 0;
  page.open("div", {{"class", "verdicts"}});
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const RunNames names(input.reports[i]);
    for (const Run* run : median_repetitions(input.reports[i])) {
      if (shown == kMostVerdicts) {
        ++left_out;
        continue;
      }
      ++shown;
      write_verdict(page, heading(input, i, names, *run), explain(input.reports[i], *run));
    }
  }
  page.close();
  if (left_out > 0) {
    page.leaf("p", fmt::format("{} more are left out; show fewer reports on a page to see them.",
                               left_out));
  }
  page.close().trusted("\n");
}

void write_verification(Markup& page, const HtmlInput& input) {
  open_section(page, "verification", "Verification");
  page.leaf("p", {{"class", "about"}},
            "Before anything is timed, each run takes a few steps beside one device that computes "
            "the same batches; the updates of every tensor are compared in every step.");
  Table table{"Verification of each run",
              {{"run", true},
               {"status", true},
               {"max relative error"},
               {"tolerance"},
               {"replicas equal", true, "bit for bit"},
               {"worst tensor", true},
               {"reason", true}},
              {},
              {}};
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const RunNames names(input.reports[i]);
    for (const Run& run : input.reports[i].runs) {
      table.rows.push_back(verification_row(heading(input, i, names, run), run.verification));
    }
  }
  write_table(page, table);
  page.close().trusted("\n");
}

}  // namespace ddpbench::report::html
