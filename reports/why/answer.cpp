// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ranges>

#include "base/text.h"
#include "reports/metrics/comparison.h"
#include "reports/metrics/conditions.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/repetitions.h"
#include "reports/why/why.h"

namespace ddpbench::report {
namespace {

// One repetition shows no noise of its own: what is not this much slower may be as fast. Of equal
// programs with a noise of 15 %, at most 1 in 100 pairs is further apart.
constexpr double kApartOnce = 0.5, kSpreadsApartOnce = 4;
// The head names a winner where chance explains its lead in 1 of 200 cases.
constexpr double kWinnerTail = 0.005;
// Caches may make several devices somewhat more than so many times as fast.
constexpr double kSuperlinear = 0.05;

const Run& first_run(const Standing& standing) { return *standing.runs.front().run; }

std::vector<double> logarithms_of(const Standing& standing) {
  std::vector<double> values;
  for (const RunRow& row : standing.runs) values.push_back(std::log(*row.run->samples_per_s.value));
  return values;
}

std::string in_percent(double ratio) { return lead_percent(ratio) + " %"; }

// What disturbed the run: "other programs used up to 71 % of the CPU"; empty: nothing was noticed.
std::string disturbance(const Run& run) {
  if (!run.conditions) return {};
  if (std::string others = other_work(*run.conditions); !others.empty()) return others;
  const double drift = run.conditions->step_drift_ratio.value.value_or(0);
  return std::abs(drift) < 0.05 ? "" : fmt::format("step times drifted by {}", in_percent(drift));
}

// What disturbed at least half of the repetitions; empty: nothing did.
std::string disturbance_of(const Standing& standing) {
  std::vector<std::string> found;
  for (const RunRow& row : standing.runs)
    if (std::string own = disturbance(*row.run); !own.empty()) found.push_back(std::move(own));
  return 2 * found.size() >= standing.runs.size() && !found.empty() ? found[0] : "";
}

// Whether they differ in more than the strategy, which on one device makes no difference.
bool differs_in_more(const Run& a, const Run& b) {
  const std::vector<std::string> keys = differing_keys(cell_key(a), cell_key(b));
  return std::ranges::any_of(
      keys, [](const std::string& key) { return key != "strategy" && key != "backend"; });
}

// Runs of `single`, dp and ddp on one device with equal settings do the same work.
struct Yardstick {
  std::size_t runs = 0;  // of at least two settings; 0: there is none
  double spread = 0;     // the largest median rate of a setting / the smallest - 1
  double least_step_s = 0, most_step_s = 0;
};

Yardstick find_yardstick(std::span<const Contest> contests) {
  Yardstick best;
  for (const Contest& contest : contests) {
    std::vector<const Standing*> candidates;
    for (const Standing& standing : contest.standings) {
      const Run& run = first_run(standing);
      if (run.world_size == 1 && run.servers == 0 && !run.oversubscribed)
        candidates.push_back(&standing);
    }
    std::ranges::stable_partition(
        candidates, [](const Standing* one) { return first_run(*one).strategy == kBaseline; });
    Yardstick found;
    double least = 0, most = 0;
    int settings = 0;
    for (const Standing* one : candidates) {
      if (differs_in_more(first_run(*one), first_run(*candidates[0]))) continue;
      ++settings;
      least = least == 0 ? one->samples_per_s : std::min(least, one->samples_per_s);
      most = std::max(most, one->samples_per_s);
      found.runs += one->runs.size();
    }
    if (settings < 2 || found.runs < best.runs) continue;
    found.spread = most / least - 1;
    const auto batch = static_cast<double>(first_run(*candidates[0]).global_batch_size);
    found.least_step_s = batch / most;
    found.most_step_s = batch / least;
    best = found;
  }
  return best;
}

// The settings of a report that can be compared, on all numbers of devices.
struct Rivals {
  std::vector<Standing> one, several;  // on one device, on several; the fastest first
  Yardstick yardstick;
  VarianceEstimate noise;  // of logarithms of rates, over the repetitions of all settings
};

enum class Order { faster, unknown, slower };

// Whether `a` is faster than `b` beyond what noise explains.
Order compare_rates(const Rivals& rivals, const Standing& a, const Standing& b) {
  double apart = std::max(kApartOnce, kSpreadsApartOnce * rivals.yardstick.spread);
  double ahead = std::log(a.samples_per_s / b.samples_per_s);
  if (a.runs.size() > 1 && b.runs.size() > 1) {
    ahead = compare({logarithms_of(b), logarithms_of(a)}).difference;
    const double per_variance =
        1.0 / static_cast<double>(a.runs.size()) + 1.0 / static_cast<double>(b.runs.size());
    const Comparison difference{.error = std::sqrt(rivals.noise.variance * per_variance),
                                .dof = rivals.noise.dof};
    apart = std::max(std::expm1(difference.margin(kWinnerTail)), rivals.yardstick.spread);
  }
  if (std::abs(ahead) <= std::log1p(apart)) return Order::unknown;
  return ahead > 0 ? Order::faster : Order::slower;
}

Rivals rivals_of(std::span<const RunRow> rows) {
  Rivals rivals;
  std::vector<std::vector<double>> logarithms;
  std::vector<Contest> all = contests(rows, Scope::all_devices);
  rivals.yardstick = find_yardstick(all);
  for (Contest& contest : all) {
    for (Standing& standing : contest.standings) {
      const Run& run = first_run(standing);
      if (run.oversubscribed) continue;
      logarithms.push_back(logarithms_of(standing));
      if (run.world_size == 1 && run.servers > 0) continue;  // on one device, and not equal to it
      (run.world_size > 1 ? rivals.several : rivals.one).push_back(std::move(standing));
    }
  }
  rivals.noise = pooled_variance(logarithms);
  for (std::vector<Standing>* side : {&rivals.one, &rivals.several})
    std::ranges::stable_sort(*side, std::greater(), &Standing::samples_per_s);
  // Who compares with one device asks for `single`, if there is one.
  std::ranges::stable_partition(
      rivals.one, [](const Standing& s) { return first_run(s).strategy == kBaseline; });
  return rivals;
}

// "ddp or dp on 2 devices", "ddp on 2 devices or dp on 4 devices".
std::string joined_names(const std::vector<const Standing*>& standings) {
  std::vector<std::string> names, ends;
  for (const Standing* standing : standings) {
    const std::size_t end = standing->name.find(" on ");
    names.push_back(standing->name.substr(0, end));
    ends.push_back(end == std::string::npos ? "" : standing->name.substr(end));
  }
  const bool alike = std::ranges::all_of(ends, [&](const auto& text) { return text == ends[0]; });
  if (alike) return fmt::format("{}{}", fmt::join(names, " or "), ends[0]);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] += ends[i];
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string rate_words(double rate) {
  return fmt::format("{:.{}f}", rate, rate < 10 ? 2 : rate < 100 ? 1 : 0);
}

std::vector<std::string> no_answer(const Rivals& rivals, const std::string& what) {
  std::string head = "No answer: " + what;
  std::string sure = "How sure: not.";
  if (rivals.yardstick.runs > 0) {
    head += fmt::format("; equal work on one device took {:.1f} to {:.1f} ms",
                        1e3 * rivals.yardstick.least_step_s, 1e3 * rivals.yardstick.most_step_s);
    sure +=
        fmt::format(" Differences below {} say nothing here.", in_percent(rivals.yardstick.spread));
  }
  constexpr int kEnough = kFewestForInterval + 1;
  const bool few = std::ssize(rivals.several[0].runs) < kEnough;
  return {head + ".", sure,
          fmt::format("Next: run it on an idle machine{}.",
                      few ? fmt::format(", or with --repetitions={}", kEnough) : "")};
}

// In the order of Cause.
constexpr std::array<std::string_view, 17> kCauseWords = {
    "nothing large to gain",
    "more threads than cores",
    "other programs",
    "waiting for a slower device",
    "devices wait for each other",
    "waiting for input",
    "too little work in a step",
    "a slow link",
    "communication not hidden",
    "all passes through device 0",
    "exchanging batch norm's statistics",
    "waiting for servers",
    "computing slows down while data moves",
    "slower side by side: shared caches, memory",
    "time between the phases",
    "several small losses",
    "not enough was recorded"};
static_assert(kCauseWords.size() == static_cast<std::size_t>(Cause::unknown) + 1);

std::string_view words_of(Cause cause) { return kCauseWords.at(static_cast<std::size_t>(cause)); }

// "slower side by side: shared caches, memory (15 to 22 % of the step)".
std::string why_words(const Standing& standing) {
  std::map<Cause, std::size_t> counts;
  for (const RunRow& row : standing.runs) ++counts[explain(*row.report, *row.run).cause];
  std::vector<std::pair<std::size_t, Cause>> causes;
  for (const auto& [cause, count] : counts) causes.emplace_back(count, cause);
  std::ranges::stable_sort(causes, std::greater(), &std::pair<std::size_t, Cause>::first);
  const std::size_t all = standing.runs.size();
  if (3 * causes[0].first >= 2 * all) return std::string(words_of(causes[0].second));
  std::vector<std::string> words;
  for (const auto& [count, cause] : causes)
    words.push_back(fmt::format("{} in {}", words_of(cause), count));
  return fmt::format("no single cause in {}: {}", counted(static_cast<int>(all), "run"),
                     fmt::join(words, ", "));
}

bool was_made(const RunRow& row) { return row.run->samples_per_s.value.has_value(); }

// "How sure: 2 devices beat 1. ddp or dp on 2 devices: cannot tell; 2.5 % apart, ...".
std::string sure_words(const Rivals& rivals, const std::vector<const Standing*>& equals) {
  const Standing& best = *equals[0];
  const Order order = compare_rates(rivals, best, rivals.one[0]);
  std::string sure = "How sure: ";
  sure += order == Order::unknown  ? "a single device may be as fast."
          : order == Order::slower ? "one device is faster."
                                   : counted(first_run(best).world_size, "device") + " beat 1.";
  if (equals.size() == 1) return sure;
  sure += fmt::format(" {}: cannot tell; {} apart", joined_names(equals),
                      in_percent(best.samples_per_s / equals.back()->samples_per_s - 1));
  if (rivals.yardstick.runs == 0) return sure + '.';
  return sure + fmt::format(", and equal work differs by {} here (=).",
                            in_percent(rivals.yardstick.spread));
}

// Of rows that do the same work on each device, or in strong scaling together.
std::vector<std::string> answer_of(std::span<const RunRow> rows) {
  const Rivals rivals = rivals_of(rows);
  if (rivals.several.empty() || rivals.one.empty()) return {};
  const Standing &single = rivals.one[0], &best = rivals.several[0];
  std::vector<const Standing*> equals = {&best};
  for (const Standing& other : rivals.several | std::views::drop(1))
    if (compare_rates(rivals, best, other) != Order::faster) equals.push_back(&other);
  std::vector<const Standing*> compared = equals;
  for (compared.push_back(&single); const Standing* standing : compared)
    if (const std::string what = disturbance_of(*standing); !what.empty())
      return no_answer(rivals, what);
  const double speedup = best.samples_per_s / single.samples_per_s;
  const int most = first_run(best).world_size;
  if (speedup > most * (1 + std::max(rivals.yardstick.spread, kSuperlinear))) {
    return no_answer(rivals, fmt::format("the baseline was disturbed: {} devices are {:.1f} times "
                                         "as fast as {}",
                                         most, speedup, single.name));
  }

  std::vector<std::string> rates;
  for (const Standing* standing : equals) rates.push_back(rate_words(standing->samples_per_s));
  std::string against =
      fmt::format("{} against {}", fmt::join(rates, " and "), rate_words(single.samples_per_s));
  const std::int64_t batch = first_run(best).global_batch_size;
  const std::int64_t one_batch = first_run(single).global_batch_size;
  if (batch != one_batch)
    against += fmt::format(", global batch {} instead of {}", batch, one_batch);
  const std::string names = joined_names(equals);
  const bool loses = compare_rates(rivals, best, single) == Order::slower;
  std::vector<std::string> lines = {
      loses ? fmt::format("{}: {} only {} times its samples/s ({}).", single.name, names,
                          rate_words(speedup), against)
            : fmt::format("{}: {} times the samples/s of one device ({}).", names,
                          rate_words(speedup), against),
      sure_words(rivals, equals)};
  if (speedup < most) lines.push_back(fmt::format("Why not {}: {}.", most, why_words(best)));
  return lines;
}

Settings work_of(const RunRow& row) {
  return settings_of(*row.run, row.run->scaling_mode == "strong" ? kStrongWorkUse : kWeakWorkUse);
}

}  // namespace

std::vector<std::string> answer_lines(std::span<const RunRow> rows) {
  if (rows.empty() || rows[0].report->tune || from_several_files(rows)) return {};
  const auto works = grouped(rows | std::views::filter(was_made), work_of);
  std::vector<std::string> lines;
  for (const auto& [work, own] : works) {
    std::vector<std::string> answer = answer_of(own);
    if (works.size() == 1) lines = std::move(answer);
    if (works.size() == 1 || answer.empty()) continue;
    std::vector<std::string> words;
    for (const auto& [key, value] : work) {
      const bool differs = std::ranges::any_of(works, [&, &k = key, &v = value](const auto& other) {
        const auto found = other.first.find(k);
        return found == other.first.end() || found->second != v;
      });
      if (!differs) continue;
      const auto named = std::ranges::find(setting_table(), key, &Setting::key);
      words.push_back(named == setting_table().end() ? value_words(key, value)
                                                     : setting_words(*named, *own[0].run));
    }
    lines.push_back(fmt::format("{}: {} {}", fmt::join(words, ", "), answer[0], answer[1]));
  }
  for (std::string& line : lines) line = printable(line);
  return lines;
}

std::string answer_text(std::span<const RunRow> rows, int width) {
  constexpr int kMostColumns = 100;
  const int columns = width > 0 ? std::min(width, kMostColumns) : kMostColumns;
  std::string text;
  for (const std::string& line : answer_lines(rows))
    text += wrap(line, static_cast<std::size_t>(columns), 4);
  return text.empty() ? text : text + "\n";
}

}  // namespace ddpbench::report
