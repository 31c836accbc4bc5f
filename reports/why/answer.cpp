// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ranges>
#include <set>

#include "base/math.h"
#include "base/text.h"
#include "reports/metrics/comparison.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/noise.h"
#include "reports/metrics/ranking.h"
#include "reports/metrics/repetitions.h"
#include "reports/table/table.h"
#include "reports/why/why.h"

namespace ddpbench::report {
namespace {

// One repetition shows no noise of its own: what is not this much slower may be as fast, without a
// yardstick not twice as slow. Of equal programs with a noise of 15 %, at most 1 in 100 pairs is
// further apart.
constexpr double kApartOnce = 0.5, kSpreadsApartOnce = 4, kApartUnknown = 1;
// The head names a winner where chance explains its lead in 1 of 200 cases.
constexpr double kWinnerTail = 0.005;

const Run& first_run(const Standing& standing) { return *standing.runs.front().run; }

std::vector<double> logarithms_of(const Standing& standing) {
  return mapped(rates_of(standing), [](double rate) { return std::log(rate); });
}

std::string in_percent(double ratio) { return lead_percent(ratio) + " %"; }

bool is_disturbed(const Standing& standing) { return !disturbance(standing).empty(); }

// The settings of a report that can be compared, on all numbers of devices.
struct Rivals {
  std::vector<Standing> one, several;  // on one device, on several; the fastest first
  Yardstick yardstick, equal_work;     // the second has disturbed runs, too
  VarianceEstimate noise;  // of logarithms of rates, over the repetitions of all settings
};

enum class Order { faster, unknown, slower };

// Whether `a` is faster than `b` beyond what noise explains.
Order compare_rates(const Rivals& rivals, const Standing& a, const Standing& b) {
  double apart = rivals.yardstick.runs.empty()
                     ? kApartUnknown
                     : std::max(kApartOnce, kSpreadsApartOnce * rivals.yardstick.spread);
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

Rivals rivals_of(const std::vector<Contest>& all) {
  Rivals rivals;
  std::vector<std::vector<double>> logarithms;
  rivals.yardstick = find_yardstick(all);
  rivals.equal_work = find_yardstick(all, true);
  for (const Standing& standing :
       all | std::views::transform(&Contest::standings) | std::views::join) {
    const Run& run = first_run(standing);
    if (run.oversubscribed) continue;
    logarithms.push_back(logarithms_of(standing));
    if (run.world_size == 1 && run.servers > 0) continue;  // on one device, and not equal to it
    (run.world_size > 1 ? rivals.several : rivals.one).push_back(standing);
  }
  rivals.noise = pooled_variance(logarithms);
  for (std::vector<Standing>* side : {&rivals.one, &rivals.several})
    std::ranges::stable_sort(*side, std::greater(), &Standing::samples_per_s);
  // Who compares with one device asks for `single`, if there is one.
  std::ranges::stable_partition(
      rivals.one, [](const Standing& s) { return first_run(s).strategy == kBaseline; });
  return rivals;
}

using Standings = std::vector<const Standing*>;

Standings pointers(const std::vector<Standing>& standings) {
  return mapped(standings, [](const Standing& standing) { return &standing; });
}

// The first, which is the fastest, and those that noise does not tell from it.
Standings equals_of(const Rivals& rivals, Standings ranked) {
  std::erase_if(ranked, [&rivals, best = ranked[0]](const Standing* other) {
    return other != best && compare_rates(rivals, *best, *other) == Order::faster;
  });
  return ranked;
}

// The first three, and how many there are beside them.
std::vector<std::string> first_few(std::vector<std::string> words) {
  constexpr std::size_t kFew = 3;
  if (words.size() <= kFew) return words;
  words[kFew] = counted(words.size() - kFew, "other");
  words.resize(kFew + 1);
  return words;
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
  if (alike) return fmt::format("{}{}", fmt::join(first_few(names), " or "), ends[0]);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] += ends[i];
  return joined(first_few(std::move(names)), " or ");
}

std::vector<std::string> no_answer(const Rivals& rivals, const std::string& what) {
  std::string head = "No answer: " + what;
  std::string sure = "How sure: not";
  if (const Yardstick& equal = rivals.equal_work; !equal.runs.empty()) {
    const double least = 1e3 * equal.least_step_s, most = 1e3 * equal.most_step_s;
    const bool apart = short_number(least) != short_number(most);
    head += fmt::format("; equal work on one device took {} to {} ms",
                        apart ? short_number(least) : fmt::format("{:.5g}", least),
                        apart ? short_number(most) : fmt::format("{:.5g}", most));
    sure += fmt::format("; even equal work differs by {} here", in_percent(equal.spread));
  }
  constexpr int kEnough = kFewestForInterval + 1;
  const Standing& best = rivals.several[0];
  const Report& report = *best.runs.front().report;
  std::string next = "Next: run it on an idle machine";
  if (std::ssize(best.runs) < kEnough && beyond_resuming(report).empty())
    next += fmt::format("; where the load comes and goes, with --repetitions={}{}", kEnough,
                        time_of(all_runs(report), kEnough));
  return {head + ".", sure + ".", next + "."};
}

bool was_made(const RunRow& row) { return row.run->samples_per_s.value.has_value(); }

RatioInterval ratio_of(const Standing& standing, const Standing& base) {
  return compare_ratios(rates_of(standing), rates_of(base));
}

// "1.35 to 2.10": between what its speed-up over one device is; empty where it is not known.
std::string range_words(const Rivals& rivals, const Standing& standing) {
  if (rivals.one.empty()) return {};
  const RatioInterval ratio = ratio_of(standing, rivals.one[0]);
  return ratio.low ? fmt::format("{:.2f} to {:.2f}", *ratio.low, *ratio.high) : "";
}

// ", 9 % ahead of dp on 2 devices (6 to 12)": how far the winner is ahead of the next one, where
// repetitions show it; else nothing.
std::string lead_words(const Rivals& rivals, const std::vector<const Standing*>& equals) {
  const auto next = std::ranges::find_if_not(rivals.several | std::views::drop(1), is_disturbed);
  if (equals.size() > 1 || next == rivals.several.end()) return {};
  const RatioInterval lead = ratio_of(rivals.several[0], *next);
  if (!lead.low || next->runs.size() == 1) return {};
  return fmt::format(", {} ahead of {} ({} to {})", in_percent(lead.ratio - 1), next->name,
                     lead_percent(*lead.low - 1), lead_percent(*lead.high - 1));
}

// " ps on 2 devices: disturbed, not ranked.": what was slower, perhaps by what disturbed it alone.
std::string unranked_words(const Rivals& rivals, const std::vector<const Standing*>& equals) {
  Standings unranked = pointers(rivals.several);
  std::erase_if(unranked, [&equals](const Standing* one) {
    return !is_disturbed(*one) || std::ranges::count(equals, one) > 0;
  });
  return unranked.empty() ? "" : fmt::format(" {}: disturbed, not ranked.", joined_names(unranked));
}

// "How sure: 2 devices beat 1. ddp or dp: cannot tell; 2.5 % apart, and noise is 5.6 % here (=).".
std::string sure_words(const Rivals& rivals, const std::vector<const Standing*>& equals) {
  const Standing& best = *equals[0];
  std::string sure = "How sure:";
  if (!rivals.one.empty()) {
    const Order order = compare_rates(rivals, best, rivals.one[0]);
    const std::string range = range_words(rivals, best);
    const std::string around = range.empty() ? "" : " (" + range + ")";
    sure += order == Order::unknown ? " a single device may be as fast" + around + "."
            : order == Order::slower
                ? " one device is faster."
                : fmt::format(" {} beat 1.", counted(first_run(best).world_size, "device"));
  } else if (equals.size() == 1) {
    sure += " beyond what noise explains.";
  }
  if (equals.size() == 1) return sure;
  std::string names = joined_names(equals);
  const std::size_t end = names.find(" on ");
  if (end == names.rfind(" on ")) names = names.substr(0, end);  // all are on as many devices
  sure += fmt::format(" {}: cannot tell; {} apart", names,
                      in_percent(best.samples_per_s / equals.back()->samples_per_s - 1));
  if (rivals.yardstick.runs.empty())
    return sure + (best.runs.size() > 1 ? "." : " in one run each.");
  return sure + fmt::format(", and noise is {} here (=).", in_percent(rivals.yardstick.spread));
}

// "ddp or dp on 2 devices: 1.50 times the samples/s of one device (10632 and 10374 against 7081)."
std::string head_words(const Rivals& rivals, const std::vector<const Standing*>& equals) {
  const Standing& best = *equals[0];
  const std::string names = joined_names(equals), lead = lead_words(rivals, equals);
  std::vector<std::string> rates, ranges;
  for (const Standing* standing : equals) {
    rates.push_back(short_number(standing->samples_per_s));
    const std::string range = range_words(rivals, *standing);
    const std::string name = standing->name.substr(0, standing->name.find(" on ")) + " ";
    if (!range.empty()) ranges.push_back((equals.size() > 1 ? name : "") + range);
  }
  std::string words = joined(first_few(rates), " and ");
  if (rivals.one.empty()) return fmt::format("{}: {} samples/s{}.", names, words, lead);
  const Standing& single = rivals.one[0];
  words += " against " + short_number(single.samples_per_s);
  if (!ranges.empty()) words = fmt::format("{}; {}", fmt::join(first_few(ranges), ", "), words);
  const std::int64_t batch = first_run(best).global_batch_size;
  const std::int64_t one_batch = first_run(single).global_batch_size;
  if (batch != one_batch) words += fmt::format(", global batch {} instead of {}", batch, one_batch);
  std::string speedup = short_number(best.samples_per_s / single.samples_per_s);
  if (const double least = equals.back()->samples_per_s;
      best.samples_per_s > (1 + kApartOnce) * least)
    speedup = fmt::format("{} to {}", short_number(least / single.samples_per_s), speedup);
  if (compare_rates(rivals, best, single) == Order::slower)
    return fmt::format("{}: {} only {} times its samples/s ({}).", single.name, names, speedup,
                       words);
  return fmt::format("{}: {} times the samples/s of one device ({}){}.", names, speedup, words,
                     lead);
}

// Why the fastest, its equals or the single device say nothing; empty: they do.
std::string doubt_words(const Rivals& rivals, const std::vector<const Standing*>& equals) {
  std::vector<const Standing*> compared = equals;
  if (!rivals.one.empty()) compared.push_back(&rivals.one[0]);
  for (const Standing* standing : compared)
    if (std::string what = disturbance(*standing); !what.empty()) return what;
  if (rivals.one.empty()) return {};
  const double speedup = equals[0]->samples_per_s / rivals.one[0].samples_per_s;
  const int devices = first_run(*equals[0]).world_size;
  if (!beyond_ideal(speedup, devices)) return {};
  return fmt::format("the baseline was disturbed: {} devices are {:.1f} times as fast as {}",
                     devices, speedup, rivals.one[0].name);
}

// Of rows that do the same work on each device, or in strong scaling together. Adds the fastest, if
// it can be told, to `named`.
std::vector<std::string> answer_of(std::span<const RunRow> rows, std::set<const Run*>& named) {
  const Rivals rivals = rivals_of(contests(rows));
  const auto shared = std::ranges::find_if(rows, [](const RunRow& row) {
    return row.run->world_size > 1 && row.run->oversubscribed && !row.run->predicted;
  });
  if (rivals.several.empty() && shared != rows.end())
    return {fmt::format("No answer: {}.", shared_words(*shared->report, *shared->run)),
            "How sure: not.",
            shared->run->device == "cuda" ? "Next: run it with a GPU for each rank."
                                          : "Next: run it with a core for each thread."};
  if (rivals.several.empty() || rivals.several.size() + rivals.one.size() < 2) return {};
  const Standing& best = rivals.several[0];
  const Standings equals = equals_of(rivals, pointers(rivals.several));
  if (const std::string what = doubt_words(rivals, equals); !what.empty())
    return no_answer(rivals, what);
  named.insert(&first_run(best));
  std::vector<std::string> lines = {head_words(rivals, equals),
                                    sure_words(rivals, equals) + unranked_words(rivals, equals)};
  const int most = first_run(best).world_size;
  if (!rivals.one.empty() && best.samples_per_s < most * rivals.one[0].samples_per_s) {
    const Lender lender(*best.runs.front().report);
    lines.push_back(fmt::format("Why not {}: {}.", most, cause_words(explain(best.runs, lender))));
  }
  return lines;
}

Settings work_of(const RunRow& row) {
  return settings_of(*row.run, row.run->scaling_mode == "strong" ? kStrongWorkUse : kWeakWorkUse);
}

// What tells `work` from those of others, before what is said of it: "batch 64 a device: ".
template <typename Others, typename WorkOf>
std::string told_apart(const Settings& work, const Others& others, WorkOf work_in,
                       const Run* run = nullptr) {
  std::vector<std::string> words;
  for (const auto& [key, value] : work) {
    const auto is_other = [&key = key, &value = value](const Settings& other) {
      const auto found = other.find(key);
      return found == other.end() || found->second != value;
    };
    if (!std::ranges::any_of(others, is_other, work_in)) continue;
    const auto named = std::ranges::find(setting_table(), key, &Setting::key);
    words.push_back(run == nullptr || named == setting_table().end() ? value_words(key, value)
                                                                     : setting_words(*named, *run));
  }
  std::erase(words, "");  // the usual value
  return words.empty() ? "" : fmt::format("{}: ", fmt::join(words, ", "));
}

// ---- what to choose among runs of equal work: a sentence for each question ----

// What each device needs: the most that one took in a repetition; 0 where that is not known.
double memory_of(const Standing* standing) {
  return largest(standing->runs, 0.0,
                 [](const RunRow& row) { return largest_memory(*row.run).value.value_or(0); });
}

std::string memory_words(double bytes) {
  const bool large = bytes >= kMiB * 1024;
  return fmt::format("{:.4g} {}", bytes / (large ? kMiB * 1024 : kMiB), large ? "GiB" : "MiB");
}

std::string fastest_words(const Rivals& rivals, const Standings& ranked) {
  const Standings equals = equals_of(rivals, ranked);
  const bool clear = equals.size() == 1;
  const Standing& next = clear ? *ranked[1] : *equals.back();
  const std::string names = joined_names(equals);
  const std::string apart = in_percent(ranked[0]->samples_per_s / next.samples_per_s - 1);
  if (!clear) return fmt::format("{}: cannot tell, {} apart", names, apart);
  const bool known = ranked[0]->runs.size() + next.runs.size() > 2;  // one run each shows no noise
  return names + " is the fastest" +
         (known ? fmt::format(", {} ahead of {}", apart, next.name) : "");
}

// Of `exact` runs, of which `ranked` are those that nothing disturbed: that changes no memory.
// `fits` gets the one that is named, if it is one.
std::string fits_words(const Rivals& rivals, Standings exact, Standings ranked, double device_bytes,
                       const Standing*& fits) {
  std::erase_if(exact, [](const Standing* one) { return memory_of(one) == 0; });
  if (exact.empty()) return "No exact run tells what memory it takes";
  const Standing* const least = *std::ranges::min_element(exact, {}, memory_of);
  const auto is_too_large = [&](const Standing* one) { return memory_of(one) > device_bytes; };
  std::erase_if(exact, is_too_large);
  std::erase_if(ranked, is_too_large);
  const std::string limit = memory_words(device_bytes);
  if (exact.empty())
    return fmt::format("No exact run fits {} (the least takes {}: {})", limit,
                       memory_words(memory_of(least)), least->name);
  if (ranked.empty())
    return fmt::format("What fits {}: {}, which were disturbed", limit, joined_names(exact));
  const Standings equals = equals_of(rivals, std::move(ranked));
  if (equals.size() == 1) fits = equals[0];
  return fmt::format("Fastest that fits {}: {}, {}{} a device", limit, joined_names(equals),
                     equals.size() > 1 ? "up to " : "",
                     memory_words(std::ranges::max(equals | std::views::transform(memory_of))));
}

// Empty where nothing near the fastest takes clearly less memory, or that one was `said`.
std::string least_memory_words(const Rivals& rivals, const Standings& ranked,
                               const Standing* said) {
  constexpr double kNear = 0.05, kClearlyLess = 0.05;
  const double near = std::max(kNear, rivals.yardstick.spread), most = memory_of(ranked[0]);
  const Standing* least = ranked[0];
  for (const Standing* one : ranked) {
    if (!has_same_optimizer(first_run(*one), first_run(*ranked[0]))) continue;
    const bool is_near = ranked[0]->samples_per_s <= (1 + near) * one->samples_per_s;
    if (is_near && memory_of(one) > 0 && memory_of(one) < memory_of(least)) least = one;
  }
  if (least == ranked[0] || least == said || memory_of(least) > (1 - kClearlyLess) * most)
    return {};
  return fmt::format("Least memory within {:.0f} % of the fastest: {}, {} a device instead of {}",
                     100 * near, least->name, memory_words(memory_of(least)), memory_words(most));
}

std::string fastest_approximate_words(const Rivals& rivals, const Contest& contest) {
  const Standing& best = contest.approximate[0];
  const bool sure = !contest.standings.empty() && !is_disturbed(best) &&
                    !is_disturbed(contest.standings[0]) &&
                    compare_rates(rivals, best, contest.standings[0]) != Order::unknown;
  const std::string words = approximate_words(contest, best, sure ? "" : " (unsure)");
  return fmt::format("Approximate: {}{}{}", best.name, words.empty() ? "" : ", ", words);
}

std::vector<std::string> choices_of(const Rivals& rivals, const Contest& contest, bool joins,
                                    std::optional<std::uint64_t> device_bytes) {
  std::vector<std::string> lines;
  const Standings exact = pointers(contest.standings);
  Standings ranked = exact;
  std::erase_if(ranked, [](const Standing* one) { return is_disturbed(*one); });
  const Standing* fits = nullptr;
  if (joins && ranked.size() > 1) lines.push_back(fastest_words(rivals, ranked));
  if (device_bytes)
    lines.push_back(fits_words(rivals, exact, ranked, static_cast<double>(*device_bytes), fits));
  if (!ranked.empty()) lines.push_back(least_memory_words(rivals, ranked, fits));
  if (!contest.approximate.empty()) lines.push_back(fastest_approximate_words(rivals, contest));
  std::erase(lines, "");
  return lines;
}

bool is_on_several(const Standing& standing) {
  return first_run(standing).world_size > 1 && !first_run(standing).oversubscribed;
}

// Adds those of each contest whose fastest `lines` name, or where runs of several works meet; where
// there are no lines, of those with approximate runs; of all where the memory was asked for.
void add_choices(std::span<const RunRow> rows, bool one_work, const std::set<const Run*>& named,
                 std::optional<std::uint64_t> device_bytes, std::vector<std::string>& lines) {
  const std::vector<Contest> all = contests(rows);
  const Rivals rivals = rivals_of(all);
  const bool none = lines.empty();
  for (const Contest& contest : all) {
    std::set<Settings> works;
    const auto on_several = [&](const auto& some) {
      return std::ranges::any_of(some, is_on_several);
    };
    const bool asked = device_bytes && (all.size() == 1 || on_several(contest.standings));
    bool told = asked || (none && all.size() + contest.standings.size() > 1 &&
                          on_several(contest.approximate));
    for (const Standing& standing : contest.standings | std::views::filter(is_on_several)) {
      works.insert(work_of(standing.runs[0]));
      told = told || named.contains(&first_run(standing));
    }
    if (!told && works.size() < 2) continue;
    for (const std::string& said : choices_of(rivals, contest, works.size() > 1, device_bytes)) {
      std::string work = one_work ? "" : told_apart(contest.work, all, &Contest::work);
      if (!work.empty()) work[0] = static_cast<char>(std::toupper(work[0]));
      lines.push_back(work + said + ".");
    }
  }
}

}  // namespace

std::vector<std::string> answer_lines(std::span<const RunRow> rows,
                                      std::optional<std::uint64_t> device_bytes) {
  if (rows.empty() || from_several_files(rows)) return {};
  if (rows[0].report->tune) return {printable(rows[0].report->tune->conclusion)};
  const auto works = grouped(rows | std::views::filter(was_made), work_of);
  std::vector<std::string> lines;
  std::set<const Run*> named;
  for (const auto& [work, own] : works) {
    std::vector<std::string> answer = answer_of(own, named);
    if (works.size() == 1) lines = std::move(answer);
    if (works.size() == 1 || answer.empty()) continue;
    const auto first = [](const auto& one) -> const Settings& { return one.first; };
    lines.push_back(told_apart(work, works, first, own[0].run) + answer[0] + " " + answer[1]);
  }
  add_choices(rows, works.size() == 1, named, device_bytes, lines);
  for (std::string& line : lines) line = printable(line);
  return lines;
}

std::string answer_text(std::span<const RunRow> rows, int width,
                        std::optional<std::uint64_t> device_bytes) {
  std::string text;
  for (const std::string& line : answer_lines(rows, device_bytes))
    text += wrap(line, static_cast<std::size_t>(text_columns(width)), 4);
  return text.empty() ? text : text + "\n";
}

}  // namespace ddpbench::report
