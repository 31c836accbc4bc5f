// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/why/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <utility>

#include "base/text.h"
#include "reports/data/settings.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"

namespace ddpbench::report {
namespace {

std::vector<VerdictPart> verdict_parts(const Decomposition& split) {
  std::vector<VerdictPart> parts;
  for (const PartName& name : kPartNames) {
    if (name.is_rare && split.parts.*name.part == 0) continue;
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

// The verdicts of each cause, the most frequent cause first.
std::vector<std::pair<Cause, std::vector<Verdict>>> by_cause(std::span<const Verdict> verdicts) {
  auto causes = grouped(verdicts, [](const Verdict& verdict) { return verdict.cause; });
  std::ranges::stable_sort(causes, std::greater(),
                           [](const auto& cause) { return cause.second.size(); });
  return causes;
}

bool is_most(std::size_t count, std::size_t all) { return 3 * count >= 2 * all; }

Figure median_figure(std::span<const Verdict> verdicts, std::size_t part,
                     Figure VerdictPart::*member) {
  std::vector<double> values;
  for (const Verdict& verdict : verdicts) {
    if (part >= verdict.parts.size()) continue;
    const Figure& figure = verdict.parts[part].*member;
    if (!figure.value) return figure;
    values.push_back(*figure.value);
  }
  return Figure::of(median(std::move(values)));
}

// The verdict of all repetitions of a setting.
Verdict combined(std::span<const RunRow> runs, std::span<const Verdict> verdicts) {
  if (verdicts.size() == 1) return verdicts[0];
  const std::size_t all = verdicts.size();
  const Cause cause = by_cause(verdicts)[0].first;
  std::vector<std::size_t> those;  // that have the most frequent cause
  for (std::size_t i = 0; i < all; ++i)
    if (verdicts[i].cause == cause) those.push_back(i);
  const std::size_t most = those.size();
  std::ranges::stable_sort(those, {}, [&](std::size_t i) { return verdicts[i].step_s; });
  const std::size_t middle = those[(most - 1) / 2];
  Verdict verdict = verdicts[middle];
  verdict.sentence = fmt::format("in {} of {} runs, as in repetition {}: {}", most, all,
                                 runs[middle].run->repetition + 1, verdict.sentence);
  if (!is_most(most, all)) {
    verdict.sentence = cause_words(verdicts);
    verdict.advice.clear();
  }
  verdict.step_s = median(mapped(verdicts, &Verdict::step_s));
  for (std::size_t part = 0; part < verdict.parts.size(); ++part) {
    for (Figure VerdictPart::*member :
         {&VerdictPart::seconds, &VerdictPart::share, &VerdictPart::lost_s}) {
      verdict.parts[part].*member = median_figure(verdicts, part, member);
    }
  }
  return verdict;
}

constexpr double kShownShare = 0.005;

// "compute 60 %, communication not hidden 30 %": the parts of the step, and what of them the ideal
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
  std::string text = joined(parts, ", ");
  if (!other) return text;
  const std::string divided =
      run.scaling_mode == "strong" ? fmt::format("'s step divided by {}", run.world_size) : "";
  return text + fmt::format("; one device{} needs these, too: {}", divided, fmt::join(kept, ", "));
}

}  // namespace

bool is_explained(const RunRow& row) {
  return !row.report->tune && !row.run->predicted && row.run->world_size > 1 &&
         row.run->step.time_s.has_value();
}

std::string cause_words(std::span<const Verdict> verdicts) {
  std::vector<std::string> words;
  for (const auto& [cause, own] : by_cause(verdicts)) {
    if (is_most(own.size(), verdicts.size())) return std::string(cause_title(cause));
    const auto [least, most] = std::ranges::minmax(own, {}, &Verdict::loss_share);
    const std::string from =
        own.size() > 1 ? fmt::format("{:.0f} to ", 100 * least.loss_share) : "";
    words.push_back(fmt::format("{} in {} ({}{:.0f} % of the step)", cause_title(cause), own.size(),
                                from, 100 * most.loss_share));
  }
  return fmt::format("no single cause in {}: {}", counted(verdicts.size(), "run"),
                     fmt::join(words, ", "));
}

std::vector<Explanation> explanations(std::span<const RunRow> rows) {
  std::vector<Explanation> found;
  std::map<const Report*, Lender> lenders;
  for (auto& [key, runs] : grouped(rows | std::views::filter(is_explained), [](const RunRow& row) {
         return std::pair(row.report, cell_key(*row.run));
       })) {
    const Lender& lender = lenders.try_emplace(key.first, *key.first).first->second;
    Verdict verdict = combined(runs, explain(runs, lender));
    found.push_back({std::move(runs), std::move(verdict)});
  }
  return found;
}

std::vector<Verdict> explain(std::span<const RunRow> runs, const Lender& lender) {
  return mapped(runs, [&](const RunRow& row) { return explain(*row.report, *row.run, lender); });
}

Verdict explain(const Report& report, const Run& run, const Lender& lender) {
  Verdict verdict;
  Decomposition split = decompose(lender, run);
  if (run.status != Status::ok && !split.missing.empty()) split.missing = missing_reason(run);
  if (split.missing.empty()) {
    verdict.step_s = split.parts.step_s;
    verdict.parts = verdict_parts(split);
    verdict.loss_share = largest_loss(run, split).seconds / verdict.step_s;
  }
  verdict.cause = find_cause(run, split);
  verdict.sentence = cause_sentence(verdict.cause, {report, run, split});
  if (!report.generator.is_import())  // whose program has other options
    verdict.advice = cause_advice(verdict.cause, {report, run, split});
  return verdict;
}

void fill_why(Report& report) {
  const Lender lender(report);
  for (Run& run : report.runs) {
    run.why.reset();
    if (!is_explained({&report, &run})) continue;
    const Verdict verdict = explain(report, run, lender);
    run.why = Why{std::string(to_string(verdict.cause)), verdict.sentence, verdict.advice, {}};
    for (const VerdictPart& part : verdict.parts) run.why->parts[part.key] = part.seconds;
  }
}

std::string render_why(std::span<const RunRow> rows, int width) {
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  const bool several = !rows.empty() && from_several_files(rows);
  const std::vector<Explanation> all = explanations(rows);
  const RunNames names(mapped(all, [](const Explanation& one) { return one.runs[0]; }));
  std::string text;
  for (const auto& [own, verdict] : all) {
    const Run& run = *own[0].run;
    const std::string file = several ? own[0].file + ": " : "";
    const std::string advice = verdict.advice.empty() ? "" : "; " + verdict.advice;
    text += wrap(printable(fmt::format("Why: {}{}: {}{}.", file, names.setting(run),
                                       verdict.sentence, advice)),
                 columns, 4);
    const std::string parts = parts_line(verdict, run);
    if (!parts.empty()) text += "    " + wrap(parts, columns > 4 ? columns - 4 : columns, 4);
  }
  return text;
}

std::string render_why(const Report& report, int width) {
  return render_why(all_runs(report), width);
}

}  // namespace ddpbench::report
