// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_verdict.h"

#include <fmt/format.h>
#include <limits.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "bench/host/terminal.h"
#include "kernels/runtime/phase.h"

namespace ddpbench::bench {
namespace {

constexpr std::int32_t kNobody = -1;

void put_if_first(std::atomic<std::int32_t>& place, int rank) {
  std::int32_t nobody = kNobody;
  place.compare_exchange_strong(nobody, rank);
}

std::optional<int> rank_in(const std::atomic<std::int32_t>& place) {
  const std::int32_t rank = place.load();
  return rank == kNobody ? std::nullopt : std::optional<int>(rank);
}

}  // namespace

struct JoinedBoard::Content {
  std::atomic<std::int32_t> reporter{kNobody}, failed{kNobody};
  std::atomic<std::int64_t> interruption{kNobody};  // the signal above the rank
  std::atomic<std::uint32_t> complete{0}, written{0}, has_path{0}, reserved{0};
  std::atomic<std::uint64_t> reserved_hash{0};
  std::array<char, PATH_MAX> report_path{};  // ends with a zero
};
static_assert(std::atomic<std::int32_t>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "locks of the C++ library do not work across processes");

JoinedBoard JoinedBoard::create() {
  JoinedBoard board(SharedMemory::create("ddpbench-joined", sizeof(Content)));
  new (board.memory_.view().data) Content;
  return board;
}

JoinedBoard JoinedBoard::open(const std::string& handle) {
  JoinedBoard board(SharedMemory::open(handle));
  if (board.memory_.view().bytes != sizeof(Content)) {
    throw CommError(fmt::format("the memory {} is not that of a joined world", handle));
  }
  return board;
}

JoinedBoard::Content& JoinedBoard::content() const {
  return *std::launder(reinterpret_cast<Content*>(memory_.view().data));
}

void JoinedBoard::tell_report_path(const std::string& path, std::uint64_t hash) {
  auto& place = content().report_path;
  if (path.size() >= place.size()) {
    throw ConfigError(fmt::format("--json: a path of {} bytes; at most {} are possible",
                                  path.size(), place.size() - 1));
  }
  content().has_path.store(0);
  place.fill('\0');
  std::ranges::copy(path, place.begin());
  if (hash != 0) content().reserved_hash.store(hash);
  content().has_path.store(1);
}

std::uint64_t JoinedBoard::reserved_hash() const { return content().reserved_hash.load(); }
void JoinedBoard::mark_reserved() { content().reserved.store(1); }
bool JoinedBoard::is_reserved() const { return content().reserved.load() != 0; }

std::string JoinedBoard::report_path() const {
  if (content().has_path.load() == 0) return "";
  const auto& path = content().report_path;
  return {path.begin(), std::ranges::find(path, '\0')};
}

void JoinedBoard::mark_complete() { content().complete.store(1); }
bool JoinedBoard::is_complete() const { return content().complete.load() != 0; }

void JoinedBoard::mark_interrupted(int rank, int signal) {
  if (failed_rank()) return;
  std::int64_t nobody = kNobody;
  content().interruption.compare_exchange_strong(nobody, (std::int64_t{signal} << 32) + rank);
}

std::optional<Interruption> JoinedBoard::interruption() const {
  const std::int64_t both = content().interruption.load();
  if (both == kNobody) return std::nullopt;
  return Interruption{static_cast<int>(both & INT32_MAX), static_cast<int>(both >> 32)};
}

void JoinedBoard::mark_failed(int rank) { put_if_first(content().failed, rank); }
std::optional<int> JoinedBoard::failed_rank() const { return rank_in(content().failed); }

bool JoinedBoard::take_report(int rank, const std::function<bool(int)>& gone) {
  std::int32_t reporter = content().reporter.load();
  while (reporter != rank) {
    if (reporter != kNobody && !gone(reporter)) return false;
    if (content().reporter.compare_exchange_strong(reporter, rank)) return true;
  }
  return true;
}

void JoinedBoard::mark_written() { content().written.store(1); }
bool JoinedBoard::is_written() const { return content().written.load() != 0; }

namespace {

bool has_deserted(const launch::RankView& view) {
  return view.exit && view.deserted && !launch::has_failed(view);
}

// Whether a rank that has ended like that may have been ended by what interrupts the run.
bool may_be_ended_by(const Interruption& interruption, const launch::ChildExit& exit) {
  return !exit.is_known || exit.signal == interruption.signal || exit.signal == SIGKILL;
}

// A rank that a signal asked to end has no error of its own. Which rank was the first says the
// board; before there is one, a rank that has ended tells it by its exit code.
void see_interruptions(WorldView& world) {
  for (std::size_t i = 0; i < world.ranks.size(); ++i) {
    const int rank = static_cast<int>(i);
    launch::RankView& view = world.ranks[i];
    auto& error = view.status.error;
    if (error && error->kind == Interrupted().kind()) {
      error->kind = CommError("").kind();
    } else if (!error && view.exit && view.exit->code == Interrupted().exit_code()) {
      view.exit.reset();
      if (!world.interruption) world.interruption = Interruption{rank, 0};
    } else if (!error && view.exit && world.interruption && world.interruption->rank == rank &&
               may_be_ended_by(*world.interruption, *view.exit)) {
      view.exit.reset();  // it ended before it could say why
    }
  }
}

}  // namespace

Verdict judge_world(WorldView world) {
  see_interruptions(world);
  Verdict verdict;
  verdict.certain = true;
  std::optional<launch::RunFailure>& failure = verdict.result.failure;
  if (auto cause = launch::find_cause(world.ranks)) {
    failure = std::move(cause);
  } else if (world.complete) {
    return verdict;
  } else if (std::ranges::any_of(world.ranks, has_deserted)) {
    failure = launch::blame_for_noticed(world.ranks);
  } else if (world.interruption) {
    return interrupted_verdict(*world.interruption);
  } else {
    verdict.certain = false;
    failure = launch::blame_for_noticed(world.ranks);
    verdict.saw_stopped = world.ranks.at(static_cast<std::size_t>(failure->rank)).stopped ||
                          launch::silent_rank(world.ranks) == failure->rank;
  }
  return verdict;
}

Verdict judge_meeting(const WorldView& world, const WorldFailure& said,
                      const launch::RankError& own) {
  Verdict verdict = judge_world(world);
  if (std::string_view(said.kind()) == Interrupted().kind()) {
    return interrupted_verdict(world.interruption.value_or(Interruption{said.rank(), 0}));
  }
  std::optional<launch::RunFailure>& failure = verdict.result.failure;
  const bool is_seen = verdict.certain && failure && failure->rank == said.rank();
  if (!is_seen) {
    verdict = {.result = {}, .certain = true};
    failure.emplace().rank = said.rank();
    failure->error = own;
  }
  failure->last.phase = kPhaseCount;  // none
  return verdict;
}

void take_later(Verdict& verdict, Verdict later) {
  const auto rank_of = [](const Verdict& one) {
    return one.result.failure && !one.result.interrupted ? one.result.failure->rank : -1;
  };
  const bool has_failed = later.certain && rank_of(later) >= 0;
  const bool says_more =
      has_failed && (verdict.result.interrupted || rank_of(later) == rank_of(verdict));
  if (verdict.certain ? says_more : later.certain || !verdict.saw_stopped) {
    verdict = std::move(later);
  }
}

Verdict interrupted_verdict(const Interruption& interruption) {
  Verdict verdict;
  verdict.certain = true;
  verdict.result.interrupted = true;
  launch::RunFailure& who = verdict.result.failure.emplace();
  who.rank = interruption.rank;
  who.signal = interruption.signal;
  who.last.phase = kPhaseCount;  // none: the rank was not to blame for what it did
  const std::string signal =
      interruption.signal != 0 ? launch::signal_name(interruption.signal) : "a signal";
  who.error = {"signal", fmt::format("rank {} was asked to end by {}", interruption.rank, signal),
               "", Interrupted().exit_code()};
  return verdict;
}

bool is_given_up_by_signal(const std::exception& error) {
  const auto* const aborted = dynamic_cast<const CommAborted*>(&error);
  return aborted != nullptr && aborted->reason() == Interrupted().what();
}

bool is_refusal(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  return known != nullptr && (known->exit_code() == ConfigError("").exit_code() ||
                              known->exit_code() == UnavailableError("").exit_code());
}

bool has_settled(const std::vector<launch::RankView>& ranks, int own) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (static_cast<int>(i) == own) continue;
    const launch::RankView& view = ranks[i];
    const bool over =
        view.exit || view.status.error || view.status.state == launch::RankState::finished;
    if (!over) return false;
  }
  return true;
}

}  // namespace ddpbench::bench
