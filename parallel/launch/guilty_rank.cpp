// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the rank that caused the failure of a run.
#include "parallel/launch/guilty_rank.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/ranges.h"

namespace ddpbench::launch {
namespace {

constexpr int kRankLostExitCode = 4;  // a rank died or a deadline passed (docs/cli.md)

using Ranks = std::span<const RankView>;

bool in_exchange_with_servers(const RankStatus& status) {
  return status.phase == static_cast<std::uint32_t>(Phase::push) ||
         status.phase == static_cast<std::uint32_t>(Phase::pull);
}

bool ended_well(const RankView& view) {
  return view.status.state == RankState::finished || (view.exit && !has_failed(view));
}

// 0 before the rank sets up, 1 until it begins to compute. A rank that failed before its first step
// has failed in its set-up.
int stage(const RankStatus& status) {
  if (status.state == RankState::starting) return 0;
  const bool failed_early = status.state == RankState::failed && status.step == 0;
  return status.state == RankState::setup || failed_early ? 1 : 2;
}

// How far a rank has come. Phases are counted, because their order differs between strategies.
auto progress(const RankStatus& s) {
  return std::tuple(s.step, s.phase_marks, s.bucket, s.collective, stage(s));
}

std::uint64_t last_step(Ranks ranks) {
  return largest(ranks, std::uint64_t{0}, [](const RankView& view) { return view.status.step; });
}

// "in step 12 (backward)", "during setup", "while verifying"
std::string place(const RankStatus& status) {
  if (status.state == RankState::finished) return "after its last step";
  if (status.step == 0) {
    const bool set_up = status.state == RankState::failed || status.state == RankState::setup;
    return set_up ? "during setup" : fmt::format("while {}", to_string(status.state));
  }
  if (status.phase >= kPhaseCount) return fmt::format("in step {}", status.step);
  return fmt::format("in step {} ({})", status.step, to_string(static_cast<Phase>(status.phase)));
}

// "rank 1", or "rank 1 on b" where there are several hosts.
std::string words_for(Ranks ranks, std::size_t rank) {
  const RankView& view = ranks[rank];
  const int number = view.rank >= 0 ? view.rank : static_cast<int>(rank);
  return fmt::format("rank {}{}{}", number, view.host.empty() ? "" : " on ", view.host);
}

// The same for what happens to a process as a whole: "the process of ranks 2 to 3" where it has
// several.
std::string process_words(Ranks ranks, std::size_t rank) {
  const std::string& all = ranks[rank].process_ranks;
  return all.empty() ? words_for(ranks, rank) : fmt::format("the process of {}", all);
}

template <typename Predicate>
std::optional<std::size_t> find_first(Ranks ranks, Predicate&& predicate) {
  const auto found = std::ranges::find_if(ranks, predicate);
  if (found == ranks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ranks.begin());
}

// Of those that `counts`, the rank that was the first to report an error. Ranks that could not
// report one come before: they have no time to order by, and others' errors may follow from their
// death.
template <typename Predicate>
std::optional<std::size_t> find_earliest(Ranks ranks, Predicate&& counts) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!counts(ranks[i])) continue;
    if (!first || ranks[i].status.error_s < ranks[*first].status.error_s) first = i;
  }
  return first;
}

RunFailure failure_at(Ranks ranks, std::size_t rank, const char* kind, const std::string& message) {
  RunFailure failure;
  failure.rank = static_cast<int>(rank);
  failure.error = {kind, message, "", kRankLostExitCode};
  failure.last = ranks[rank].status;
  return failure;
}

// The failure of `rank`, for which others wait in vain. It includes what the first of them said
// about it, and the operation in which that one noticed.
RunFailure noticed_failure_at(Ranks ranks, std::size_t rank, const char* kind,
                              const std::string& message) {
  RunFailure failure = failure_at(ranks, rank, kind, message);
  if (const auto first = find_first(ranks, only_noticed)) {
    const RankError& witness = *ranks[*first].status.error;
    failure.error.message +=
        fmt::format("; {} noticed: {}", words_for(ranks, *first), witness.message);
    failure.error.operation = witness.operation;
  }
  return failure;
}

// The rank's failure in its own words, or in ours when it gave none.
RunFailure own_failure(Ranks ranks, std::size_t rank) {
  const RankView& view = ranks[rank];
  const std::string where = place(view.status);
  // A rank may report an error and then crash while it unwinds; the error is its failure.
  if (view.status.error) {
    RunFailure failure = failure_at(ranks, rank, "", "");
    failure.error = *view.status.error;
    failure.signal = view.exit ? view.exit->signal : 0;
    return failure;
  }
  if (!view.lost.empty()) {
    return noticed_failure_at(
        ranks, rank, CommError("").kind(),
        fmt::format("{} was lost {}: {}", process_words(ranks, rank), where, view.lost));
  }
  if (view.exit->signal != 0) {
    RunFailure failure =
        noticed_failure_at(ranks, rank, "signal",
                           fmt::format("{} was killed by {} {}", process_words(ranks, rank),
                                       signal_name(view.exit->signal), where));
    failure.signal = view.exit->signal;
    return failure;
  }
  return failure_at(ranks, rank, "exit",
                    fmt::format("{} ended with exit code {} {} without giving a reason",
                                process_words(ranks, rank), view.exit->code, where));
}

// Ranks that step together are at most one step apart. Ranks further behind are servers of a
// parameter server, whose steps are not counted.
bool is_stepping(const RankView& view, std::uint64_t last) { return view.status.step + 1 >= last; }

// The rank among `candidates` with the least progress; of equals, the one that moved longest ago.
std::size_t least_progress(Ranks ranks, const std::vector<std::size_t>& candidates) {
  return *std::ranges::min_element(candidates, {}, [&](std::size_t rank) {
    return std::pair(progress(ranks[rank].status), ranks[rank].last_progress_s);
  });
}

// The rank that the others wait for; nullopt when all have ended.
std::optional<std::size_t> find_straggler(Ranks ranks) {
  const std::uint64_t last = last_step(ranks);
  std::vector<std::size_t> stepping, servers;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ended_well(ranks[i])) (is_stepping(ranks[i], last) ? stepping : servers).push_back(i);
  }
  const bool wait_for_servers =
      !servers.empty() && std::ranges::all_of(stepping, [&](std::size_t i) {
        return in_exchange_with_servers(ranks[i].status);
      });
  if (wait_for_servers) return least_progress(ranks, servers);
  if (stepping.empty()) return std::nullopt;
  return least_progress(ranks, stepping);
}

// The rank that has not come to a call in which others wait, by their calls: where `witness` waits
// for a message, at the end of the chain of ranks that wait for each other; else behind a
// collective. nullopt where the calls do not tell.
std::optional<std::size_t> find_missing(Ranks ranks, std::size_t witness) {
  std::size_t at = witness;
  for (std::size_t hops = 0; hops < ranks.size(); ++hops) {
    const CallMark& pending = ranks[at].status.pending;
    if (ended_well(ranks[at])) return std::nullopt;
    if (pending.number == 0) return hops > 0 ? std::optional(at) : std::nullopt;
    if (pending.peer < 0) break;
    at = static_cast<std::size_t>(pending.peer);
    if (at >= ranks.size()) return std::nullopt;
  }
  const auto come_to = [&](std::size_t rank) {
    const RankStatus& status = ranks[rank].status;
    const CallMark& last = status.pending.number > 0 ? status.pending : status.completed;
    return last.peer < 0 ? last.number : 0;
  };
  std::optional<std::size_t> last;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (come_to(rank) == 0 || ended_well(ranks[rank])) continue;
    if (!last || come_to(rank) < come_to(*last)) last = rank;
  }
  return last && come_to(*last) < come_to(witness) ? last : std::nullopt;
}

// Whether `rank` is really behind another rank, not just named first among equals.
bool is_behind(Ranks ranks, std::size_t rank) {
  return !is_stepping(ranks[rank], last_step(ranks)) ||
         std::ranges::any_of(ranks, [&](const RankView& other) {
           return progress(ranks[rank].status) < progress(other.status);
         });
}

// A rank that cannot take part any more: it is stopped, or left although others still needed it.
std::optional<RunFailure> find_absent(Ranks ranks) {
  if (const auto rank = find_first(ranks, &RankView::stopped)) {
    return noticed_failure_at(ranks, *rank, "stalled",
                              fmt::format("{} is stopped (SIGSTOP) {}", process_words(ranks, *rank),
                                          place(ranks[*rank].status)));
  }
  const auto deserter = find_first(ranks, [](const RankView& view) {
    return view.exit && !has_failed(view) && view.status.state != RankState::finished;
  });
  if (!deserter) return std::nullopt;
  return noticed_failure_at(
      ranks, *deserter, "exit",
      fmt::format("{} ended {} though others needed it", process_words(ranks, *deserter),
                  place(ranks[*deserter].status)));
}

// The only rank, where ranks are on several hosts, that has neither failed nor ended: each rank
// that lives fails soon after another has. nullopt: several such ranks, or none, or one host.
std::optional<std::size_t> silent_rank(Ranks ranks) {
  std::optional<std::size_t> silent;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].host.empty()) return std::nullopt;
    if (has_failed(ranks[rank]) || ranks[rank].exit || ended_well(ranks[rank])) continue;
    if (silent) return std::nullopt;
    silent = rank;
  }
  return silent;
}

}  // namespace

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

bool has_failed(const RankView& view) {
  return view.status.error || !view.lost.empty() ||
         (view.exit && (view.exit->signal != 0 || view.exit->code != 0));
}

bool only_noticed(const RankView& view) {
  const std::optional<RankError>& error = view.status.error;
  return error && (error->kind == "comm" || error->kind == "timeout");
}

std::optional<RunFailure> find_cause(std::span<const RankView> ranks) {
  const auto cause = find_earliest(
      ranks, [](const RankView& view) { return has_failed(view) && !only_noticed(view); });
  return cause ? std::optional(own_failure(ranks, *cause)) : std::nullopt;
}

RunFailure blame_for_noticed(std::span<const RankView> ranks) {
  if (const auto absent = find_absent(ranks)) return *absent;
  const std::optional<std::size_t> noticed = find_earliest(ranks, only_noticed);
  ensure(noticed.has_value(), "no rank has noticed anything");
  const std::size_t witness = *noticed;
  if (ranks[witness].status.error->kind != "timeout") return own_failure(ranks, witness);
  const auto silent = silent_rank(ranks);
  auto straggler = find_missing(ranks, witness);
  if (!straggler) straggler = silent;
  if (!straggler) {
    straggler = find_straggler(ranks);
    if (!straggler || only_noticed(ranks[*straggler]) || !is_behind(ranks, *straggler)) {
      return own_failure(ranks, witness);
    }
  }
  return noticed_failure_at(
      ranks, *straggler, "stalled",
      fmt::format("{} stands still {}, {}", words_for(ranks, *straggler),
                  place(ranks[*straggler].status),
                  straggler == silent ? "and says nothing" : "behind the others"));
}

RunFailure blame_for_stall(std::span<const RankView> ranks, double idle_s) {
  if (const auto absent = find_absent(ranks)) return *absent;
  const std::size_t rank = find_straggler(ranks).value_or(0);
  return failure_at(ranks, rank, "stalled",
                    fmt::format("{} stands still {}: no rank made progress for {:.3g} s; raise "
                                "--timeout if a step may take that long",
                                words_for(ranks, rank), place(ranks[rank].status), idle_s));
}

}  // namespace ddpbench::launch
