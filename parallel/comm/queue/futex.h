// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sleeping on a 32-bit word until another thread or process changes it.
#pragma once

#include <atomic>
#include <cstdint>

#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

// Whether sleepers and wakers may be in different processes (the word is in shared memory).
enum class FutexScope : std::uint8_t { process, host };

// Sleeps while `word` is `expected`, at most until `deadline` and DeadlineClock::kLongestSleep. May
// return early for no reason.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline,
                FutexScope scope) noexcept;
// The same without a deadline.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                FutexScope scope) noexcept;
void futex_wake_all(std::atomic<std::uint32_t>& word, FutexScope scope) noexcept;

}  // namespace ddpbench::comm
