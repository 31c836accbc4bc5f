// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

bool has_deserted(const launch::RankSight& sight) {
  return sight.exit && sight.deserted && !launch::has_failed(sight);
}

// A rank that a signal ended may tell it as an error. Such an error is judged by interrupted_rank:
// where the user ended all ranks, it is no failure.
void count_as_noticed(WorldSight& world) {
  for (std::size_t i = 0; i < world.ranks.size(); ++i) {
    auto& error = world.ranks[i].status.error;
    if (!error || error->kind != "interrupted") continue;
    error->kind = CommError("").kind();
    if (!world.interrupted_rank) world.interrupted_rank = static_cast<int>(i);
  }
}

launch::RunFailure ended_by_signal(const std::vector<launch::RankSight>& ranks, int rank) {
  launch::RunFailure failure;
  failure.rank = rank;
  failure.error = {"signal", fmt::format("rank {} was told to end by a signal", rank), "",
                   CommError("").exit_code()};
  failure.last = ranks.at(static_cast<std::size_t>(rank)).status;
  return failure;
}

}  // namespace

Verdict judge_world(WorldSight world) {
  count_as_noticed(world);
  Verdict verdict;
  verdict.certain = true;
  std::optional<launch::RunFailure>& failure = verdict.result.failure;
  if (auto cause = launch::find_cause(world.ranks)) {
    failure = std::move(cause);
  } else if (world.complete) {
    return verdict;
  } else if (std::ranges::any_of(world.ranks, has_deserted)) {
    failure = launch::blame_for_noticed(world.ranks);
  } else if (world.interrupted) {
    verdict.result.interrupted = true;
  } else {
    verdict.certain = false;
    failure = world.interrupted_rank ? ended_by_signal(world.ranks, *world.interrupted_rank)
                                     : launch::blame_for_noticed(world.ranks);
  }
  return verdict;
}

bool has_settled(const std::vector<launch::RankSight>& ranks, int own) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (static_cast<int>(i) == own) continue;
    const launch::RankSight& sight = ranks[i];
    const bool over =
        sight.exit || sight.status.error || sight.status.state == launch::RankState::finished;
    if (!over) return false;
  }
  return true;
}

}  // namespace ddpbench::bench
