// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "reports/exports/run_formats.h"
#include "reports/gate/gate_parts.h"

namespace ddpbench::report {
namespace {

[[noreturn]] void fail_nothing_compared(std::span<const UncomparedRuns> uncompared) {
  std::string lines = uncompared.empty() ? "; there are no runs" : "";
  for (const UncomparedRuns& runs : uncompared) lines += "\n  " + uncompared_text(runs);
  throw ConfigError(
      "nothing to compare: no new run or collective has a counterpart in the baseline that ended "
      "well, with the same strategy or operation, devices, servers, bytes and backend" +
      lines);
}

std::set<std::string> hosts_of(std::span<const Report> reports) {
  std::set<std::string> hosts;
  for (const Report& report : reports) {
    hosts.insert(report.environment.hosts.begin(), report.environment.hosts.end());
  }
  return hosts;
}

// Milliseconds from the end of all of `first` to the first of `then`; negative where they overlap.
// Nothing where a time is not recorded, as of imports that were not told when they were made.
std::optional<std::int64_t> gap_ms(std::span<const Report> first, std::span<const Report> then) {
  const auto ends = std::ranges::minmax_element(first, {}, &Report::finished_at);
  const auto begin = unix_ms(std::ranges::min_element(then, {}, &Report::started_at)->started_at);
  const auto end = unix_ms(ends.max->finished_at);
  if (!begin || !end || ends.min->finished_at.empty()) return std::nullopt;
  return *begin - *end;
}

void note_order(std::span<const Report> candidate, std::span<const Report> base,
                std::vector<std::string>& notes) {
  constexpr std::int64_t kHour_ms = 3'600'000;
  const auto after = gap_ms(base, candidate), before = gap_ms(candidate, base);
  const std::int64_t gap = std::max(after, before).value_or(-1);
  // An import has one moment of the time that it took: sides that took turns may begin apart.
  const bool moment = candidate.front().started_at == candidate.front().finished_at;
  if (gap < (moment ? kHour_ms : 0)) return;
  notes.push_back(fmt::format(
      "the new runs were measured {} {} the baseline: changes of the machine in between count as "
      "changes of the program; run both in turn (docs/ci.md)",
      duration_words(static_cast<double>(gap) / 1e3), after > before ? "after" : "before"));
}

bool any_interrupted(std::span<const Report> reports) {
  return std::ranges::count(reports, Status::interrupted, &Report::status) > 0;
}

std::vector<std::string> notes_on_measuring(std::span<const Report> candidate,
                                            std::span<const Report> base) {
  std::vector<std::string> notes;
  if (hosts_of(candidate) != hosts_of(base)) {
    notes.emplace_back("the new reports and the baseline are from different hosts");
  }
  note_order(candidate, base, notes);
  for (const auto& [side, reports] : {std::pair("baseline", base), std::pair("new", candidate)}) {
    if (!any_interrupted(reports)) continue;
    notes.push_back(fmt::format("a {} report was interrupted: it may lack repetitions", side));
  }
  return notes;
}

GateOrigin origin_of(std::span<const Report> reports) {
  const std::set<std::string> hosts = hosts_of(reports);
  GateOrigin origin{{}, {hosts.begin(), hosts.end()}};
  for (const Report& report : reports) {
    const std::string& time = report.started_at;
    if (time.empty()) continue;
    if (origin.started_at.empty() || time < origin.started_at) origin.started_at = time;
  }
  return origin;
}

}  // namespace

std::string_view to_string(GateVerdict verdict) {
  constexpr std::string_view kWords[] = {"PASS", "IMPROVED", "INCONCLUSIVE", "REGRESSED"};
  return kWords[static_cast<std::size_t>(verdict)];
}

std::string to_string(const PairKey& key, const std::string& setting) {
  std::string text = fmt::format("{}, {}", key.strategy,
                                 counted(key.world_size, key.collective ? "rank" : "device"));
  if (key.servers > 0) text += ", " + counted(key.servers, "server");
  if (!key.backend.empty() && key.backend != "none") text += ", " + key.backend;
  if (key.bytes > 0) text += ", " + size_text(key.bytes);
  return setting.empty() ? text : text + ", " + setting;
}

std::vector<std::string> gate_setting_keys(std::span<const Report> candidate,
                                           std::span<const Report> base) {
  std::set<std::string> keys;
  std::deque<Run> collectives;
  for (const std::span<const Report> side : {candidate, base}) {
    for (const Cell& cell : single_cells(side, collectives)) {
      for (const auto& [key, value] : cell.settings) {
        const std::size_t slash = key.find('/');
        keys.insert({key, key.substr(0, slash), key.substr(slash + 1)});
      }
    }
  }
  return {keys.begin(), keys.end()};
}

GateResult check_reports(std::span<const Report> candidate, std::span<const Report> base,
                         const GateOptions& options) {
  const Pairing pairing = pair_runs(candidate, base, options.allow_mismatch);
  GateResult result{.options = options};
  judge_pairs(pairing.pairs, result);
  const auto add_alone = [&result](const std::vector<Cell>& cells, bool is_new, const char* why) {
    for (const Cell& cell : cells) {
      result.uncompared.push_back({is_new, cell.key, cell.setting, cell.runs.size(), why});
    }
  };
  add_alone(pairing.candidate_alone, true, "not in the baseline");
  add_alone(pairing.base_alone, false, "not in the new reports");
  if (result.pairs.empty()) fail_nothing_compared(result.uncompared);
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
