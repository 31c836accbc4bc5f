// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// See futex.h. std::atomic::wait does not work between processes, so these are the system calls.
#include "parallel/comm/queue/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace ddpbench::comm {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

namespace {

int operation(int base, FutexScope scope) {
  return scope == FutexScope::process ? base | FUTEX_PRIVATE_FLAG : base;
}

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t expected, const timespec* at_most,
              FutexScope scope) noexcept {
  ::syscall(SYS_futex, &word, operation(FUTEX_WAIT, scope), expected, at_most, nullptr, 0);
}

}  // namespace

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
