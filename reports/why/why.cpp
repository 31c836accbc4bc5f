// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/why/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/text.h"
#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/data/settings.h"
#include "reports/metrics/repetitions.h"
#include "reports/metrics/scaling.h"
#include "reports/why/why_cause.h"

namespace ddpbench::report {
namespace {

std::vector<VerdictPart> verdict_parts(const Decomposition& split) {
  std::vector<VerdictPart> parts;
  for (const PartName& name : kPartNames) {
    // Runs that exchange none keep the parts that they had.
    if (name.part == &StepParts::sync_batch_norm_s && split.parts.sync_batch_norm_s == 0) continue;
    VerdictPart part{name.key, name.title, {}, {}, Figure::missing(split.no_baseline)};
    if (split.ideal) part.lost_s = Figure::of(split.lost.*name.part);
    if (!split.ideal && name.of_baseline) {
      part.seconds = part.share = Figure::missing(split.no_baseline);
    } else {
      part.seconds = Figure::of(split.parts.*name.part);
      part.share = Figure::of(split.parts.*name.part / split.parts.step_s);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

bool is_explained(const RunRow& row) {
  return !row.report->tune && row.run->world_size > 1 && row.run->step.time_s.has_value();
}

// The run that stands for the repetitions of a setting.
struct Chosen {
  RunRow row;
  std::size_t repetitions = 1;  // that have step times
};

// Of an even number there is none with the median step: the faster of the two in the middle.
std::vector<Chosen> median_rows(std::span<const RunRow> rows) {
  std::vector<Chosen> chosen;
  for (auto& [key, cell] : grouped(rows | std::views::filter(is_explained), [](const RunRow& row) {
         return std::pair(row.report, cell_key(*row.run));
       })) {
    std::ranges::stable_sort(cell, {},
                             [](const RunRow& row) { return row.run->step.time_s->median; });
    chosen.push_back({cell[(cell.size() - 1) / 2], cell.size()});
  }
  return chosen;
}

// ", repetition 3, the median one of 5"; empty for one repetition.
std::string repetition_words(const Chosen& chosen) {
  if (chosen.repetitions == 1) return {};
  const bool odd = chosen.repetitions % 2 == 1;
  return fmt::format(", repetition {}, {} of {}", chosen.row.run->repetition + 1,
                     odd                       ? "the median one"
                     : chosen.repetitions == 2 ? "the faster"
                                               : "the faster of the middle two",
                     chosen.repetitions);
}

constexpr double kShownShare = 0.005;

// "compute 60 %, exposed communication 30 %": the parts of the step, and what of them the ideal
// step has, too, hence is not lost, where that is more than compute.
std::string parts_line(const Verdict& verdict, const Run& run) {
  std::vector<std::string> parts, kept;
  bool other = false;
  const auto add = [](std::vector<std::string>& to, const VerdictPart& part, double share) {
    if (share >= kShownShare) to.push_back(fmt::format("{} {:.0f} %", part.title, 100 * share));
    return share >= kShownShare;
  };
  for (const VerdictPart& part : verdict.parts) {
    if (part.share.value) add(parts, part, *part.share.value);
    if (!part.seconds.value || !part.lost_s.value) continue;
    const double share = (*part.seconds.value - *part.lost_s.value) / verdict.step_s;
    other |= add(kept, part, share) && part.key != "compute_s";
  }
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (!other) return text;
  const std::string divided =
      run.scaling_mode == "strong" ? fmt::format(" divided by {}", run.world_size) : "";
  return text + fmt::format("; not lost, as single's step{} has it, too: {}", divided,
                            fmt::join(kept, ", "));
}

}  // namespace

std::vector<const Run*> median_repetitions(const Report& report) {
  std::vector<const Run*> chosen;
  for (const Chosen& one : median_rows(all_runs(report))) chosen.push_back(one.row.run);
  return chosen;
}

Verdict explain(const Report& report, const Run& run) { return explain(report, run, report); }

Verdict explain(const Report& report, const Run& run, const Report& lender) {
  Verdict verdict;
  Decomposition split = decompose(lender, run);
  if (run.status != Status::ok && !split.missing.empty()) split.missing = missing_reason(run);
  if (split.missing.empty()) {
    verdict.step_s = split.parts.step_s;
    verdict.parts = verdict_parts(split);
  }
  if (run.world_size == 1) {
    verdict.cause = Cause::scales;
    verdict.sentence = "one device: there is nothing to scale";
    return verdict;
  }
  verdict.cause = find_cause(run, split);
  verdict.sentence = cause_sentence(verdict.cause, {report, run, split});
  verdict.advice = cause_advice(verdict.cause, {report, run, split});
  return verdict;
}

void fill_why(Report& report) {
  for (Run& run : report.runs) {
    run.why.reset();
    if (!is_explained({&report, &run})) continue;
    const Verdict verdict = explain(report, run);
    run.why = Why{std::string(to_string(verdict.cause)), verdict.sentence, verdict.advice, {}};
    for (const VerdictPart& part : verdict.parts) run.why->parts[part.key] = part.seconds;
  }
}

namespace {

// The report with the `single` runs against which the run was measured, often its own.
const Report& lender_of(const RunRow& row, std::span<const ReportFile> files) {
  if (!row.run->scaling) return *row.report;
  for (const ReportFile& file : files) {
    if (row.run->scaling->baseline == borrowed_baseline(file)) return file.report;
  }
  return *row.report;
}

}  // namespace

std::string render_why(std::span<const RunRow> rows, std::span<const ReportFile> files, int width) {
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  const bool several = !rows.empty() && from_several_files(rows);
  const std::vector<Chosen> chosen = median_rows(rows);
  std::vector<const Run*> runs;
  for (const Chosen& one : chosen) runs.push_back(one.row.run);
  const RunNames names(runs);
  std::string text;
  for (const Chosen& one : chosen) {
    const RunRow& row = one.row;
    const Verdict verdict = explain(*row.report, *row.run, lender_of(row, files));
    const std::string file = several ? row.file + ": " : "";
    const std::string advice = verdict.advice.empty() ? "" : "; " + verdict.advice;
    text += wrap(printable(fmt::format("Why: {}{}{}: {}{}.", file, names.setting(*row.run),
                                       repetition_words(one), verdict.sentence, advice)),
                 columns, 4);
    const std::string parts = parts_line(verdict, *row.run);
    if (!parts.empty()) text += "    " + wrap(parts, columns > 4 ? columns - 4 : columns, 4);
  }
  return text;
}

std::string render_why(const Report& report, int width) {
  return render_why(all_runs(report), {}, width);
}

}  // namespace ddpbench::report
