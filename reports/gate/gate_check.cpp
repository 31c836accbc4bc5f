// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "reports/gate/gate_judge.h"
#include "reports/gate/gate_pairing.h"

namespace ddpbench::report {
namespace {

UncomparedRuns alone(const Cell& cell, bool candidate) {
  return {candidate, cell.key, cell.setting, cell.runs.size(),
          candidate ? "not in the baseline" : "not in the new reports"};
}

// The baseline has no usable run, so nothing is compared, also when the new runs ended well.
UncomparedRuns without_baseline(const PairedCells& cells, std::size_t candidate_usable) {
  std::string reason = fmt::format("no run of the baseline has figures ({})",
                                   unusable_reason(*cells.base.runs.front()));
  reason += candidate_usable > 0 ? "; the new runs have"
                                 : fmt::format("; nor has a new one ({})",
                                               unusable_reason(*cells.candidate.runs.front()));
  return {false, cells.base.key, cells.base.setting, cells.base.runs.size(), std::move(reason)};
}

[[noreturn]] void fail_nothing_compared(std::span<const UncomparedRuns> uncompared) {
  std::string lines;
  for (const UncomparedRuns& runs : uncompared) {
    lines += fmt::format("\n  {} {}: {}", runs.candidate ? "new" : "baseline",
                         to_string(runs.key, runs.setting), runs.reason);
  }
  throw ConfigError(fmt::format(
      "nothing to compare: no new run has a counterpart in the baseline with the same strategy, "
      "devices, servers and backend that ended well, and no new collective one with the same "
      "operation, ranks, bytes and backend{}",
      lines.empty() ? "; there are no runs" : lines));
}

std::set<std::string> hosts_of(std::span<const Report> reports) {
  std::set<std::string> hosts;
  for (const Report& report : reports) {
    hosts.insert(report.environment.hosts.begin(), report.environment.hosts.end());
  }
  return hosts;
}

// Times have one format and zone, so the order of the texts is that of the times. Imports are not
// told when they were measured.
bool all_before(std::span<const Report> first, std::span<const Report> then) {
  const auto unknown = [](const std::string& time) { return time.empty(); };
  if (std::ranges::any_of(first, unknown, &Report::finished_at) ||
      std::ranges::any_of(then, unknown, &Report::started_at)) {
    return false;
  }
  const auto last_end = std::ranges::max_element(first, {}, &Report::finished_at);
  const auto first_begin = std::ranges::min_element(then, {}, &Report::started_at);
  return last_end != first.end() && first_begin != then.end() &&
         last_end->finished_at <= first_begin->started_at;
}

bool any_interrupted(std::span<const Report> reports) {
  return std::ranges::any_of(
      reports, [](const Report& report) { return report.status == Status::interrupted; });
}

std::vector<std::string> notes_on_measuring(std::span<const Report> candidate,
                                            std::span<const Report> base) {
  std::vector<std::string> notes;
  if (hosts_of(candidate) != hosts_of(base)) {
    notes.emplace_back("the new reports and the baseline are from different hosts");
  }
  if (all_before(base, candidate) || all_before(candidate, base)) {
    notes.emplace_back(
        "one side was measured before the other: whatever changed on the machine in between "
        "counts as a change of the program; run both in turn (docs/ci.md)");
  }
  for (const auto& [side, reports] : {std::pair("baseline", base), std::pair("new", candidate)}) {
    if (!any_interrupted(reports)) continue;
    notes.push_back(fmt::format("a {} report was interrupted: it may lack repetitions", side));
  }
  return notes;
}

GateOrigin origin_of(std::span<const Report> reports) {
  GateOrigin origin;
  const std::set<std::string> hosts = hosts_of(reports);
  origin.hosts.assign(hosts.begin(), hosts.end());
  for (const Report& report : reports) {
    if (report.started_at.empty()) continue;
    if (origin.started_at.empty() || report.started_at < origin.started_at) {
      origin.started_at = report.started_at;
    }
  }
  return origin;
}

void add_keys(std::set<std::string>& keys, std::span<const Report> reports) {
  for (const Report& report : reports) {
    for (const Run& run : report.runs) {
      for (const auto& [key, value] : pair_settings(report, run)) {
        keys.insert(key);
        const std::size_t slash = key.find('/');
        if (slash == std::string::npos) continue;
        keys.insert(key.substr(0, slash));
        keys.insert(key.substr(slash + 1));
      }
    }
    for (const CollectiveRow& row : report.collectives) {
      for (const auto& [key, value] : collective_settings(row)) keys.insert(key);
    }
  }
}

}  // namespace

std::string_view to_string(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::pass:
      return "PASS";
    case GateVerdict::improved:
      return "IMPROVED";
    case GateVerdict::inconclusive:
      return "INCONCLUSIVE";
    case GateVerdict::regressed:
      return "REGRESSED";
  }
  throw InternalError("unknown verdict");
}

std::string to_string(const PairKey& key) {
  std::string text = fmt::format("{}, {}", key.strategy,
                                 counted(key.world_size, key.collective ? "rank" : "device"));
  if (key.servers > 0) text += ", " + counted(key.servers, "server");
  if (!key.backend.empty() && key.backend != "none") text += ", " + key.backend;
  if (key.bytes > 0) text += ", " + size_text(key.bytes);
  return text;
}

std::string to_string(const PairKey& key, const std::string& setting) {
  return setting.empty() ? to_string(key) : to_string(key) + ", " + setting;
}

std::vector<std::string> gate_setting_keys(std::span<const Report> candidate,
                                           std::span<const Report> base) {
  std::set<std::string> keys;
  add_keys(keys, candidate);
  add_keys(keys, base);
  return {keys.begin(), keys.end()};
}

GateResult refused_check(const GateOptions& options, GateOrigin origin, std::string refusal) {
  GateResult result;
  result.options = options;
  result.origin = std::move(origin);
  result.refusal = std::move(refusal);
  return result;
}

GateResult check_reports(std::span<const Report> candidate, std::span<const Report> base,
                         const GateOptions& options) {
  const Pairing pairing = pair_runs(candidate, base, options.allow_mismatch);
  GateResult result;
  result.options = options;
  std::vector<ComparablePair> pairs;
  for (const PairedCells& cells : pairing.pairs) {
    ComparablePair pair{&cells, usable_runs(cells.candidate.runs), usable_runs(cells.base.runs)};
    if (pair.base.empty()) {
      result.uncompared.push_back(without_baseline(cells, pair.candidate.size()));
    } else {
      pairs.push_back(std::move(pair));
    }
  }
  for (const Cell& cell : pairing.candidate_alone) result.uncompared.push_back(alone(cell, true));
  for (const Cell& cell : pairing.base_alone) result.uncompared.push_back(alone(cell, false));
  if (pairs.empty()) fail_nothing_compared(result.uncompared);
  result.pairs = judge_pairs(pairs, options, result.tests);
  for (const PairVerdict& pair : result.pairs) {
    result.verdict = std::max(result.verdict, pair.verdict);
  }
  result.origin = origin_of(candidate);
  result.notes = notes_on_measuring(candidate, base);
  if (!pairing.base_alone.empty() && any_interrupted(candidate)) {
    result.verdict = std::max(result.verdict, GateVerdict::inconclusive);
    result.notes.emplace_back(
        "a new report was interrupted before it had every run that the baseline has");
  }
  return result;
}

}  // namespace ddpbench::report
