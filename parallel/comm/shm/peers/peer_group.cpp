// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/shm/peers/peer_group.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "base/error.h"

namespace ddpbench::comm {

namespace {

// A sleeper looks this often whether its peer is still alive.
constexpr double kLifeCheck_s = 0.05;

// Between two looks whether a peer has come. It is long, because with many more ranks than cores
// those that have come would otherwise take the cores from those that still start.
constexpr auto kAttachPause = std::chrono::milliseconds(2);

std::int32_t waiting_code(int peer) {
  return peer == PeerGroup::kAnybody ? RankSlot::kAnybody : peer + 1;
}

}  // namespace

PeerGroup::PeerGroup(std::shared_ptr<ControlBlock> block, int rank)
    : block_(std::move(block)), rank_(rank) {
  own().pid = ::getpid();
  own().presence.store(Presence::attached, std::memory_order_release);
}

void PeerGroup::leave() noexcept {
  own().presence.store(Presence::left, std::memory_order_seq_cst);
  if (block_->header().sleepers.load(std::memory_order_seq_cst) != 0) wake_waiters();
}

void PeerGroup::await_attached(double timeout_s) {
  const Deadline deadline = deadline_after(timeout_s);
  for (int peer = 0; peer < size(); ++peer) {
    while (block_->slot(peer).presence.load(std::memory_order_acquire) == Presence::absent) {
      if (aborted()) throw_aborted(nullptr);
      if (has_passed(deadline)) {
        throw CommTimeout(
            fmt::format("{}rank {} did not join within {} s", prefix(nullptr), peer, timeout_s));
      }
      std::this_thread::sleep_for(kAttachPause);
    }
    if (block_->scope() == FutexScope::host) {
      processes_.push_back(open_process(block_->slot(peer).pid));
    }
  }
}

void PeerGroup::wait_slowly(int peer, const WaitReason& reason, double yield_s,
                            PredicateRef ready) {
  const Deadline yield_until = deadline_after(yield_s);
  Deadline next_check = std::min(reason.deadline, deadline_after(kLifeCheck_s));
  while (!ready()) {
    const bool progressed = background_ && background_->advance();
    const auto now = DeadlineClock::now();
    if (aborted() || stopped_.load(std::memory_order_relaxed) || now >= next_check) {
      check(peer, reason, ready);
      next_check = std::min(reason.deadline, deadline_after(kLifeCheck_s));
    } else if (progressed) {
      continue;
    } else if (now < yield_until) {
      ::sched_yield();
    } else {
      const bool anybody = background_ && background_->active();
      const double wake_s =
          anybody ? std::min(reason.wake_s, background_->wake_s()) : reason.wake_s;
      sleep(anybody ? kAnybody : peer, std::min(next_check, deadline_after(wake_s - steady_s())),
            ready);
    }
  }
}

// A sleeper that its peers can see. The rank that takes the code back, this one or its waker, also
// takes the sleeper off the count.
class PeerGroup::Announced {
 public:
  Announced(PeerGroup& group, int peer) : group_(group), code_(waiting_code(peer)) {
    group_.own().waiting_for.store(code_, std::memory_order_seq_cst);
    group_.block().header().sleepers.fetch_add(1, std::memory_order_seq_cst);
  }
  ~Announced() {
    std::int32_t expected = code_;
    if (group_.own().waiting_for.compare_exchange_strong(expected, RankSlot::kNobody)) {
      group_.block().header().sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;

 private:
  PeerGroup& group_;
  const std::int32_t code_;
};

void PeerGroup::sleep(int peer, Deadline until, PredicateRef ready) {
  const std::uint32_t bell = own().bell.load(std::memory_order_seq_cst);
  const Announced announced(*this, peer);
  const bool disturbed = ready() || aborted() || stopped_.load(std::memory_order_seq_cst) ||
                         (background_ && background_->advance());
  if (!disturbed) futex_wait(own().bell, bell, until, block_->scope());
}

void PeerGroup::check(int peer, const WaitReason& reason, PredicateRef ready) {
  if (aborted()) throw_aborted(reason.operation);
  if (stopped_.load(std::memory_order_seq_cst)) {
    throw CommError(prefix(reason.operation) + "the communicator was destroyed meanwhile",
                    operation_name(reason.operation));
  }
  for (int other = 0; other < size(); ++other) {
    // A collective needs all ranks in the end, so any loss is worth knowing.
    const bool matters =
        other == peer || reason.collective != 0 || (background_ && background_->needs(other));
    if (matters && other != rank_) check_peer_lives(other, reason, ready);
  }
  if (has_passed(reason.deadline) && !ready()) {
    throw CommTimeout(
        prefix(reason.operation) + "deadline passed while waiting for " + late_peers(peer, reason),
        operation_name(reason.operation));
  }
}

void PeerGroup::check_all() {
  if (aborted()) throw_aborted(nullptr);
  for (int peer = 0; peer < size(); ++peer) {
    // The order matters: a process that ends well has left before.
    if (peer != rank_ && is_dead(peer) && !has_left(peer)) throw_gone(peer, nullptr);
  }
}

void PeerGroup::throw_gone(int peer, const Operation* operation) const {
  throw CommError(
      fmt::format("{}rank {} (pid {}) {}", prefix(operation), peer, block_->slot(peer).pid,
                  has_left(peer) ? "has left the communicator" : "has died"),
      operation_name(operation));
}

void PeerGroup::check_peer_lives(int peer, const WaitReason& reason, PredicateRef ready) {
  if (!has_left(peer) && !is_dead(peer)) return;
  // The peer may have done its part before: of a collective when it has consumed it, of a message
  // when that is ready now.
  const std::uint64_t consumed = block_->slot(peer).consumed.load(std::memory_order_acquire);
  const bool done = reason.collective != 0 && consumed >= position(reason.collective + 1, 0);
  if (done || ready()) return;
  throw_gone(peer, reason.operation);
}

void PeerGroup::ensure_same_operation(const Descriptor& mine, const Descriptor& theirs,
                                      int peer) const {
  const auto agreed = [](const Descriptor& d) {
    return std::tuple(d.kind, d.op, d.root, d.count, d.type);
  };
  if (agreed(mine) == agreed(theirs)) return;  // every call comes by here
  const auto words = [](const Descriptor& d) {
    return fmt::format("{} ({}, root {}) of {} {}", to_string(d.kind), to_string(d.op), d.root,
                       d.count, to_string(d.type));
  };
  throw CommError(fmt::format("{}ranks disagree: rank {} calls {}, rank {} calls {}",
                              prefix(nullptr), rank_, words(mine), peer, words(theirs)),
                  to_string(mine.kind));
}

std::string PeerGroup::late_peers(int peer, const WaitReason& reason) const {
  const bool is_message = reason.collective == 0;
  const bool receives = background_ && std::isfinite(background_->wake_s());
  const bool is_on_link = receives || own().sends_until_s.load() > steady_s();
  if (peer == rank_ || (is_message && is_on_link)) return "the emulated link";
  if (is_message) {
    return peer == kAnybody ? "a message" : fmt::format("rank {}", peer);
  }
  std::string late;
  for (int other = 0; other < size(); ++other) {
    const bool entered = block_->slot(other).progress.load(std::memory_order_acquire) >=
                         position(reason.collective, 1);
    if (!entered) late += fmt::format("{}{}", late.empty() ? "" : ", ", other);
  }
  if (late.empty()) return fmt::format("rank {}, which has entered but does not progress", peer);
  return fmt::format("rank {}, which did not come", late);
}

void PeerGroup::wake_waiters() noexcept {
  for (int peer = 0; peer < size(); ++peer) {
    RankSlot& slot = block_->slot(peer);
    if (peer == rank_) continue;
    if (!wake(slot, rank_ + 1)) wake(slot, RankSlot::kAnybody);
  }
}

bool PeerGroup::wake(RankSlot& slot, std::int32_t waiting_for) noexcept {
  std::int32_t expected = waiting_for;
  if (slot.waiting_for.load(std::memory_order_seq_cst) != expected ||
      !slot.waiting_for.compare_exchange_strong(expected, RankSlot::kNobody)) {
    return false;
  }
  block_->header().sleepers.fetch_sub(1, std::memory_order_seq_cst);
  slot.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(slot.bell, block_->scope());
  return true;
}

void PeerGroup::wake_if_asleep(RankSlot& slot) noexcept {
  const std::int32_t waiting_for = slot.waiting_for.load(std::memory_order_seq_cst);
  if (waiting_for != RankSlot::kNobody) wake(slot, waiting_for);
}

void PeerGroup::abort(const std::string& reason) noexcept {
  AbortNotice& notice = block_->header().abort;
  std::uint32_t none = AbortNotice::kNone;
  if (notice.state.compare_exchange_strong(none, AbortNotice::kWriting)) {
    notice.rank = rank_;
    const std::size_t length = std::min(reason.size(), notice.reason.size() - 1);
    std::memcpy(notice.reason.data(), reason.data(), length);
    notice.reason[length] = '\0';
    notice.state.store(AbortNotice::kReadable, std::memory_order_seq_cst);
  }
  for (int peer = 0; peer < size(); ++peer) {
    wake_if_asleep(block_->slot(peer));
  }
}

void PeerGroup::throw_aborted(const Operation* operation) const {
  const AbortNotice& notice = block_->header().abort;
  // The writer is a few instructions away, unless it was killed just there.
  const Deadline patience = deadline_after(0.1);
  while (notice.state.load(std::memory_order_acquire) != AbortNotice::kReadable) {
    if (has_passed(patience)) {
      throw CommError(prefix(operation) + "aborted, reason unknown", operation_name(operation));
    }
    ::sched_yield();
  }
  throw CommError(
      fmt::format("{}aborted by rank {}: {}", prefix(operation), notice.rank, notice.reason.data()),
      operation_name(operation));
}

void PeerGroup::stop() noexcept {
  stopped_.store(true, std::memory_order_seq_cst);
  wake_own_waiter();
}

}  // namespace ddpbench::comm
