// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/why/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "reports/missing_reason.h"
#include "reports/table/table_layout.h"
#include "reports/why/why_cause.h"
#include "reports/why/why_parts.h"

namespace ddpbench::report {
namespace {

struct PartName {
  double StepParts::*part;
  const char* key;
  const char* title;
};
constexpr std::array<PartName, 8> kParts = {
    PartName{&StepParts::input_wait_s, "input_wait_s", "input wait"},
    {&StepParts::compute_s, "compute_s", "compute"},
    {&StepParts::compute_slowed_s, "compute_slowed_s", "compute beyond single's"},
    {&StepParts::overlap_slowed_s, "overlap_slowed_s", "slowed by overlap"},
    {&StepParts::comm_exposed_s, "comm_exposed_s", "exposed communication"},
    {&StepParts::straggler_wait_s, "straggler_wait_s", "waiting for the slowest rank"},
    {&StepParts::server_wait_s, "server_wait_s", "waiting for servers"},
    {&StepParts::host_s, "host_s", "host and launch"}};

bool needs_baseline(const PartName& name) {
  return name.part == &StepParts::compute_slowed_s || name.part == &StepParts::overlap_slowed_s;
}

std::vector<VerdictPart> verdict_parts(const Decomposition& split) {
  std::vector<VerdictPart> parts;
  for (const PartName& name : kParts) {
    VerdictPart part{name.key, name.title, {}, {}, Figure::missing(split.no_baseline)};
    if (split.ideal) part.lost_s = Figure::of(split.lost.*name.part);
    if (!split.ideal && needs_baseline(name)) {
      part.seconds = part.share = Figure::missing(split.no_baseline);
    } else {
      part.seconds = Figure::of(split.parts.*name.part);
      part.share = Figure::of(split.parts.*name.part / split.parts.step_s);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// Of runs that differ in their repetition alone.
using Cell = std::tuple<std::string, int, int, std::int64_t, std::string, std::string,
                        std::map<std::string, std::string>>;

Cell cell_of(const Run& run) {
  return {run.strategy, run.world_size, run.servers,         run.per_device_batch_size,
          run.backend,  run.injected,   run.strategy_options};
}

bool is_explained(const Run& run) { return run.world_size > 1 && run.step.time_s.has_value(); }

std::string parts_line(const Verdict& verdict) {
  constexpr double kShown = 0.005;
  std::vector<std::string> parts;
  for (const VerdictPart& part : verdict.parts) {
    if (!part.share.value || *part.share.value < kShown) continue;
    parts.push_back(fmt::format("{} {:.0f} %", part.title, 100 * *part.share.value));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<const Run*> median_repetitions(const Report& report) {
  std::vector<std::pair<Cell, std::vector<const Run*>>> cells;
  std::map<Cell, std::size_t> places;
  for (const Run& run : report.runs) {
    if (!is_explained(run)) continue;
    const auto [place, added] = places.try_emplace(cell_of(run), cells.size());
    if (added) cells.push_back({place->first, {}});
    cells[place->second].second.push_back(&run);
  }
  std::vector<const Run*> chosen;
  for (auto& [cell, runs] : cells) {
    std::ranges::sort(runs, {}, [](const Run* run) { return run->step.time_s->median; });
    chosen.push_back(runs[(runs.size() - 1) / 2]);
  }
  return chosen;
}

std::string_view to_string(Cause cause) {
  constexpr std::array<std::string_view, 14> kNames = {
      "scales",         "oversubscription", "slow_rank",         "imbalance",
      "starved_input",  "tiny_network",     "slow_link",         "exposed_communication",
      "primary_device", "servers",          "slowed_by_overlap", "slowed_compute",
      "host_overhead",  "unknown"};
  return kNames.at(static_cast<std::size_t>(cause));
}

Verdict explain(const Report& report, const Run& run) {
  Verdict verdict;
  Decomposition split = decompose(report, run);
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
  verdict.sentence = cause_sentence(verdict.cause, report, run, split);
  verdict.advice = cause_advice(verdict.cause, report, run, split);
  return verdict;
}

void fill_why(Report& report) {
  for (Run& run : report.runs) {
    run.why.reset();
    if (!is_explained(run)) continue;
    const Verdict verdict = explain(report, run);
    run.why = Why{std::string(to_string(verdict.cause)), verdict.sentence, verdict.advice, {}};
    for (const VerdictPart& part : verdict.parts) run.why->parts[part.key] = part.seconds;
  }
}

namespace {

// "ddp on 2 devices", and what tells it from `others` of the same strategy and number of devices.
std::string title_of(const Run& run, std::span<const Run* const> others) {
  std::vector<std::string> details;
  const auto add = [&details](std::string detail) {
    if (std::ranges::find(details, detail) == details.end()) details.push_back(std::move(detail));
  };
  for (const Run* other : others) {
    if (other->strategy != run.strategy || other->world_size != run.world_size) continue;
    if (other->per_device_batch_size != run.per_device_batch_size) {
      add(fmt::format("batch {}", run.per_device_batch_size));
    }
    if (other->servers != run.servers) add(fmt::format("{} servers", run.servers));
    for (const auto& [name, value] : run.strategy_options) {
      const auto theirs = other->strategy_options.find(name);
      if (theirs == other->strategy_options.end() || theirs->second != value) {
        add(fmt::format("{}={}", name, value));
      }
    }
  }
  return fmt::format("{} on {} devices{}{}{}", run.strategy, run.world_size,
                     details.empty() ? "" : " (", fmt::join(details, ", "),
                     details.empty() ? "" : ")");
}

}  // namespace

std::string render_why(const Report& report, int width) {
  const std::size_t columns = width > 0 ? static_cast<std::size_t>(width) : 0;
  std::string text;
  const std::vector<const Run*> runs = median_repetitions(report);
  for (const Run* run : runs) {
    const Verdict verdict = explain(report, *run);
    const std::string advice = verdict.advice.empty() ? "" : "; " + verdict.advice;
    text += wrap(
        printable(fmt::format("Why: {}: {}{}.", title_of(*run, runs), verdict.sentence, advice)),
        columns, 4);
    const std::string parts = parts_line(verdict);
    if (!parts.empty()) text += "    " + wrap(parts, columns > 4 ? columns - 4 : columns, 4);
  }
  return text;
}

}  // namespace ddpbench::report
