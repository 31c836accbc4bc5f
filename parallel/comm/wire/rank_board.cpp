// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/wire/rank_board.h"

#include "base/error.h"

namespace ddpbench::comm {

namespace {

Operation told_operation(const Notice& notice) {
  return Operation::told(notice.operation, notice.op, notice.rank, notice.count, notice.type);
}

}  // namespace

RankBoard::RankBoard(int rank, int size)
    : rank_(rank), size_(size), peers_(static_cast<std::size_t>(size)) {}

std::uint64_t RankBoard::begin(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  history_[++begun_ % kHistory] = operation;
  return begun_;
}

std::uint64_t RankBoard::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

Notice RankBoard::status(NoticeKind kind) const {
  const std::lock_guard lock(mutex_);
  const Operation& last = history_[begun_ % kHistory];
  Notice notice;
  notice.kind = kind;
  notice.rank = last.root;
  notice.number = begun_;
  notice.count = last.part().count;
  notice.operation = last.kind;
  notice.op = last.op;
  notice.type = last.part().type;
  return notice;
}

void RankBoard::hear(int peer, const Notice& notice) {
  if (notice.kind == NoticeKind::abort) {
    abort(notice.rank, notice.text.data());
    return;
  }
  const std::lock_guard lock(mutex_);
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  if (notice.kind == NoticeKind::leave) from.presence = Presence::left;
  if (notice.kind == NoticeKind::status || notice.kind == NoticeKind::reply) from.last = notice;
}

void RankBoard::lose(int peer) {
  const std::lock_guard lock(mutex_);
  Presence& presence = peers_[static_cast<std::size_t>(peer)].presence;
  if (presence == Presence::here) presence = Presence::died;
}

bool RankBoard::is_gone(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<std::size_t>(peer)].presence != Presence::here;
}

bool RankBoard::are_all_gone() const {
  const std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && peers_[static_cast<std::size_t>(peer)].presence == Presence::here) {
      return false;
    }
  }
  return true;
}

bool RankBoard::abort(int by, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return false;
  aborted_ = reason;
  aborted_by_ = by;
  return true;
}

bool RankBoard::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_.has_value();
}

void RankBoard::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

void RankBoard::throw_aborted(const Operation* operation) const {
  throw CommAborted(
      fmt::format("{}aborted by rank {}: {}", prefix(operation), aborted_by_, *aborted_), *aborted_,
      operation_name(operation));
}

void RankBoard::throw_if_aborted(const Operation* operation) const {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw_aborted(operation);
}

void RankBoard::check(const Operation* operation) const {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw_aborted(operation);
  if (stopped_) {
    throw CommError(prefix(operation) + "the communicator was destroyed meanwhile",
                    operation_name(operation));
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peers_[static_cast<std::size_t>(peer)].presence != Presence::died) continue;
    throw CommError(fmt::format("{}rank {} has died", prefix(operation), peer),
                    operation_name(operation));
  }
  for (int peer = 0; peer < size_; ++peer) check_same(peer);
}

void RankBoard::check_same(int peer) const {
  const Notice& last = peers_[static_cast<std::size_t>(peer)].last;
  if (last.number == 0 || last.number > begun_ || last.number + kHistory <= begun_) return;
  check_same_call(rank_, size_, history_[last.number % kHistory], peer, told_operation(last));
}

void RankBoard::throw_gone(int peer, const Operation* operation) const {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw_aborted(operation);
  const bool left = peers_[static_cast<std::size_t>(peer)].presence == Presence::left;
  throw CommError(fmt::format("{}rank {} {}", prefix(operation), peer,
                              left ? "has left the communicator" : "has died"),
                  operation_name(operation));
}

std::string RankBoard::late_peers(int peer) const {
  const std::lock_guard lock(mutex_);
  std::string late;
  for (int other = 0; other < size_; ++other) {
    const bool entered = peers_[static_cast<std::size_t>(other)].last.number >= begun_;
    if (other != rank_ && !entered) late += fmt::format("{}{}", late.empty() ? "" : ", ", other);
  }
  if (late.empty() && peer == kAnybody) return "ranks that have entered but do not progress";
  if (late.empty()) return fmt::format("rank {}, which has entered but does not progress", peer);
  return fmt::format("rank {}, which did not come", late);
}

std::string RankBoard::prefix(const Operation* operation) const {
  return fmt::format("rank {} of {}: {}", rank_, size_,
                     operation ? describe(*operation) + ": " : "");
}

}  // namespace ddpbench::comm
