// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/store/deadline.h"

#include <algorithm>
#include <utility>

namespace ddpbench::comm {
namespace {

std::atomic<DeadlineClock::Pauses*> shared_pauses{nullptr};

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

}  // namespace ddpbench::comm
