// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/store/deadline.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace ddpbench::comm {

namespace {

std::atomic<DeadlineClock::Pauses*> shared_pauses{nullptr};

int operation(int base, FutexScope scope) {
  return scope == FutexScope::process ? base | FUTEX_PRIVATE_FLAG : base;
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t expected, const timespec* at_most,
              FutexScope scope) noexcept {
  ::syscall(SYS_futex, &word, operation(FUTEX_WAIT, scope), expected, at_most, nullptr, 0);
}

}  // namespace

DeadlineClock::duration DeadlineClock::Pauses::look(duration steady) noexcept {
  // Only a look after this time writes, so that threads that spin do not contend.
  constexpr duration kFine = std::chrono::milliseconds(20);
  rep looked = looked_.load(std::memory_order_acquire);
  if (steady.count() - looked >= kFine.count()) {
    const std::lock_guard lock(mutex_);
    looked = looked_.load(std::memory_order_relaxed);
    // Before the first look there is nothing to take out.
    const rep since = steady.count() - looked;
    if (looked != 0 && (since > kSuspended.count() || is_held(steady.count()))) lost_ += since;
    looked = std::max(looked, steady.count());
    looked_.store(looked, std::memory_order_release);
  }
  // A thread that was stopped between reading `steady` and here comes late.
  return duration(std::max(looked, steady.count()) - lost_.load(std::memory_order_relaxed));
}

bool DeadlineClock::Pauses::is_held(rep steady) {
  if (!held_) return false;
  if (steady - asked_ >= kLongestSleep.count()) {
    was_held_ = held_();
    asked_ = steady;
  }
  return was_held_;
}

void DeadlineClock::Pauses::hold_while(std::function<bool()> held) {
  const std::lock_guard lock(mutex_);
  held_ = std::move(held);
}

DeadlineClock::Pauses& DeadlineClock::pauses() noexcept {
  static Pauses own;
  Pauses* const shared = shared_pauses.load(std::memory_order_acquire);
  return shared != nullptr ? *shared : own;
}

void DeadlineClock::share(Pauses& pauses) noexcept {
  shared_pauses.store(&pauses, std::memory_order_release);
}

DeadlineClock::time_point DeadlineClock::now() noexcept {
  return time_point(pauses().look(std::chrono::steady_clock::now().time_since_epoch()));
}

Deadline deadline_after(double seconds) {
  constexpr double kYear_s = 365.0 * 86400;
  const double bounded = seconds > 0 ? std::min(seconds, kYear_s) : 0;
  return DeadlineClock::now() + std::chrono::duration_cast<DeadlineClock::duration>(
                                    std::chrono::duration<double>(bounded));
}

DeadlineClock::duration sleep_until_look(Deadline deadline) {
  return std::clamp(deadline - DeadlineClock::now(), DeadlineClock::duration::zero(),
                    DeadlineClock::kLongestSleep);
}

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline,
                FutexScope scope) noexcept {
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(sleep_until_look(deadline)).count();
  if (left <= 0) return;
  const timespec relative{static_cast<time_t>(left / 1'000'000'000),
                          static_cast<long>(left % 1'000'000'000)};
  sleep_on(word, expected, &relative, scope);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                FutexScope scope) noexcept {
  sleep_on(word, expected, nullptr, scope);
}

void futex_wake_all(std::atomic<std::uint32_t>& word, FutexScope scope) noexcept {
  ::syscall(SYS_futex, &word, operation(FUTEX_WAKE, scope), INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ddpbench::comm
