// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/wire/wire_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "parallel/comm/queue/futex.h"

namespace ddpbench::comm {

namespace {

// How long a rank whose connection has ended waits for its listener to say why.
constexpr double kLossTold_s = 1;
// How long a rank that leaves hears on until all have left. A connection that is closed with
// something unread is reset, and what its peer has not read yet may be lost.
constexpr double kLinger_s = 0.5;

}  // namespace

WireEngine::WireEngine(int rank, int size, std::unique_ptr<WireLink> link,
                       AllReduceAlgorithm all_reduce)
    : board_(rank, size),
      all_reduce_(all_reduce),
      taken_(static_cast<std::size_t>(size)),
      sent_(static_cast<std::size_t>(size)),
      received_(sent_),
      peer_messages_(static_cast<std::size_t>(size)),
      link_(std::move(link)) {
  if (!link_) return;
  link_->listen([this](int peer, const Notice& notice) { hear(peer, notice); },
                [this](int peer) {
                  board_.lose(peer);
                  wake();
                });
}

void WireEngine::check_peers() {
  if (link_) link_->poll();
  board_.check(nullptr);
}

std::vector<AllReduceAlgorithm> WireEngine::all_reduces_run() const {
  std::vector<AllReduceAlgorithm> run;
  for (const AllReduceAlgorithm one : {AllReduceAlgorithm::ring, AllReduceAlgorithm::direct}) {
    if (algorithms_run_.load(std::memory_order_relaxed) >> static_cast<unsigned>(one) & 1) {
      run.push_back(one);
    }
  }
  return run;
}

// ---- while a rank waits ----

void WireEngine::look_around(Call& call, int peer) {
  if (++call.looks == 1) tell_all(board_.status(NoticeKind::status));
  link_->poll();
  board_.check(&call.operation);
  if (has_passed(call.deadline)) {
    throw CommTimeout(board_.prefix(&call.operation) + "deadline passed while waiting for " +
                          board_.late_peers(peer),
                      operation_name(&call.operation));
  }
  advance_messages();
}

void WireEngine::fail_for(int peer, const Operation* operation) {
  const Deadline patience = deadline_after(kLossTold_s);
  while (!board_.is_gone(peer) && !board_.aborted() && !has_passed(patience)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  board_.lose(peer);
  board_.throw_gone(peer, operation);
}

void WireEngine::wake() noexcept {
  bell_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(bell_, FutexScope::process);
}

// ---- notices ----

void WireEngine::hear(int peer, const Notice& notice) {
  board_.hear(peer, notice);
  const auto place = static_cast<std::size_t>(peer);
  if (notice.kind == NoticeKind::status && board_.begun() >= notice.number) {
    link_->tell(peer, board_.status(NoticeKind::reply));
  } else if (notice.kind == NoticeKind::message) {
    const std::lock_guard lock(peer_messages_mutex_);
    peer_messages_[place].sends.push_back(notice);
  } else if (notice.kind == NoticeKind::taken) {
    const std::lock_guard lock(peer_messages_mutex_);
    peer_messages_[place].taken = notice.number;
  }
  wake();
}

void WireEngine::tell_all(const Notice& notice) noexcept {
  for (int peer = 0; peer < board_.size(); ++peer) {
    if (peer != board_.rank()) link_->tell(peer, notice);
  }
}

void WireEngine::abort(const std::string& reason) noexcept {
  if (board_.abort(board_.rank(), reason)) {
    Notice notice;
    notice.kind = NoticeKind::abort;
    notice.rank = board_.rank();
    const std::size_t length = std::min(reason.size(), notice.text.size() - 1);
    std::memcpy(notice.text.data(), reason.data(), length);
    tell_all(notice);
  }
  if (link_) link_->give_up();
  wake();
}

void WireEngine::stop() noexcept {
  board_.stop();
  wake();
}

void WireEngine::leave() noexcept {
  if (left_.exchange(true)) return;
  Notice notice;
  notice.kind = NoticeKind::leave;
  if (!link_) return;
  tell_all(notice);
  const Deadline patience = deadline_after(kLinger_s);
  while (!board_.aborted() && !board_.are_all_gone() && !has_passed(patience)) {
    link_->poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  link_->stop();
}

}  // namespace ddpbench::comm
