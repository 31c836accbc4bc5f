// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the rank that caused the failure of a run.
#include "parallel/launch/guilty_rank.h"

#include <string.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace ddpbench::launch {
namespace {

constexpr int kRankLostExitCode = 4;  // a rank died or a deadline passed (docs/cli.md)

using Ranks = std::span<const RankSight>;

bool in_exchange_with_servers(const RankStatus& status) {
  return status.phase == static_cast<std::uint32_t>(Phase::push) ||
         status.phase == static_cast<std::uint32_t>(Phase::pull);
}

bool ended_well(const RankSight& sight) {
  return sight.status.state == RankState::finished || (sight.exit && !has_failed(sight));
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

// " (its process is asleep after 0.12 s of processor time)", or nothing.
std::string activity(const RankSight& sight) {
  return sight.activity.empty() ? "" : fmt::format(" (its process is {})", sight.activity);
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
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!only_noticed(ranks[i])) continue;
    const RankError& witness = *ranks[i].status.error;
    failure.error.message += fmt::format("; rank {} noticed: {}", i, witness.message);
    failure.error.operation = witness.operation;
    break;
  }
  return failure;
}

// The rank's failure in its own words, or in ours when it gave none.
RunFailure own_failure(Ranks ranks, std::size_t rank) {
  const RankSight& sight = ranks[rank];
  const std::string where = place(sight.status);
  // A rank may report an error and then crash while it unwinds; the error is its failure.
  if (sight.status.error) {
    RunFailure failure = failure_at(ranks, rank, "", "");
    failure.error = *sight.status.error;
    failure.signal = sight.exit ? sight.exit->signal : 0;
    return failure;
  }
  if (sight.exit->signal != 0) {
    RunFailure failure = noticed_failure_at(
        ranks, rank, "signal",
        fmt::format("rank {} was killed by {} {}", rank, signal_name(sight.exit->signal), where));
    failure.signal = sight.exit->signal;
    return failure;
  }
  return failure_at(ranks, rank, "exit",
                    fmt::format("rank {} ended with exit code {} {} without giving a reason", rank,
                                sight.exit->code, where));
}

std::optional<std::size_t> find_stopped(Ranks ranks) {
  const auto found = std::ranges::find_if(ranks, &RankSight::stopped);
  if (found == ranks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ranks.begin());
}

// Ranks that step together are at most one step apart. Ranks further behind are servers of a
// parameter server, whose steps are not counted.
bool is_stepping(Ranks ranks, std::size_t rank) {
  std::uint64_t most = 0;
  for (const RankSight& sight : ranks) most = std::max(most, sight.status.step);
  return ranks[rank].status.step + 1 >= most;
}

// The rank among `candidates` with the least progress; of equals, the one that moved longest ago.
std::size_t least_progress(Ranks ranks, const std::vector<std::size_t>& candidates) {
  return *std::ranges::min_element(candidates, [&](std::size_t a, std::size_t b) {
    const auto left = progress(ranks[a].status), right = progress(ranks[b].status);
    if (left != right) return left < right;
    return ranks[a].last_progress_s < ranks[b].last_progress_s;
  });
}

// The rank that the others wait for; nullopt when all have ended.
std::optional<std::size_t> find_straggler(Ranks ranks) {
  std::vector<std::size_t> stepping, servers;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ended_well(ranks[i])) (is_stepping(ranks, i) ? stepping : servers).push_back(i);
  }
  const bool wait_for_servers =
      !servers.empty() && std::ranges::all_of(stepping, [&](std::size_t i) {
        return in_exchange_with_servers(ranks[i].status);
      });
  if (wait_for_servers) return least_progress(ranks, servers);
  if (stepping.empty()) return std::nullopt;
  return least_progress(ranks, stepping);
}

// Whether `rank` is really behind another rank, not just named first among equals.
bool is_behind(Ranks ranks, std::size_t rank) {
  return !is_stepping(ranks, rank) || std::ranges::any_of(ranks, [&](const RankSight& other) {
    return progress(ranks[rank].status) < progress(other.status);
  });
}

std::size_t first_noticing(Ranks ranks) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!only_noticed(ranks[i])) continue;
    if (!first || ranks[i].status.error_s < ranks[*first].status.error_s) first = i;
  }
  ensure(first.has_value(), "no rank has noticed anything");
  return *first;
}

// A rank that left although others still needed it.
std::optional<std::size_t> find_deserter(Ranks ranks) {
  const auto found = std::ranges::find_if(ranks, [](const RankSight& sight) {
    return sight.exit && !has_failed(sight) &&
           (sight.deserted || sight.status.state != RankState::finished);
  });
  if (found == ranks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ranks.begin());
}

// A rank that cannot take part any more.
std::optional<RunFailure> find_absent(Ranks ranks) {
  if (const auto rank = find_stopped(ranks)) {
    const std::string where = place(ranks[*rank].status);
    return noticed_failure_at(ranks, *rank, "stalled",
                              fmt::format("rank {} is stopped (SIGSTOP) {}", *rank, where));
  }
  if (const auto rank = find_deserter(ranks)) {
    const std::string where = place(ranks[*rank].status);
    const char* const how =
        ranks[*rank].exit->is_known ? "" : "; how it ended is known to its launcher only";
    return noticed_failure_at(
        ranks, *rank, "exit",
        fmt::format("rank {} ended {} though others needed it{}", *rank, where, how));
  }
  return std::nullopt;
}

}  // namespace

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

bool has_failed(const RankSight& sight) {
  return sight.status.error || (sight.exit && (sight.exit->signal != 0 || sight.exit->code != 0));
}

bool only_noticed(const RankSight& sight) {
  const std::optional<RankError>& error = sight.status.error;
  return error && (error->kind == "comm" || error->kind == "timeout");
}

std::optional<RunFailure> find_cause(std::span<const RankSight> ranks) {
  // Ranks that reported an error are ordered by its time. Ranks that could not report one come
  // first: they have no time to order by, and others' errors may follow from their death.
  std::optional<std::size_t> cause;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!has_failed(ranks[i]) || only_noticed(ranks[i])) continue;
    if (!cause || ranks[i].status.error_s < ranks[*cause].status.error_s) cause = i;
  }
  return cause ? std::optional(own_failure(ranks, *cause)) : std::nullopt;
}

RunFailure blame_for_noticed(std::span<const RankSight> ranks) {
  if (const auto absent = find_absent(ranks)) return *absent;
  const std::size_t witness = first_noticing(ranks);
  if (ranks[witness].status.error->kind != "timeout") return own_failure(ranks, witness);
  const auto straggler = find_straggler(ranks);
  if (!straggler || only_noticed(ranks[*straggler]) || !is_behind(ranks, *straggler)) {
    return own_failure(ranks, witness);
  }
  const std::string where = place(ranks[*straggler].status);
  return noticed_failure_at(ranks, *straggler, "stalled",
                            fmt::format("rank {} stands still {}, behind the others{}", *straggler,
                                        where, activity(ranks[*straggler])));
}

RunFailure blame_for_stall(std::span<const RankSight> ranks, double idle_s) {
  if (const auto absent = find_absent(ranks)) return *absent;
  const std::size_t rank = find_straggler(ranks).value_or(0);
  const std::string where = place(ranks[rank].status);
  return failure_at(
      ranks, rank, "stalled",
      fmt::format("rank {} stands still {}: no rank made progress for {:.3g} s{}; raise "
                  "--timeout if a step may take that long",
                  rank, where, idle_s, activity(ranks[rank])));
}

}  // namespace ddpbench::launch
