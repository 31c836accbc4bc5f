// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PeerWait: how long a rank waits for its peers, and a function that it calls meanwhile. A
// supervisor that hears nothing would take a wait that is longer than its own deadline for a rank
// that hangs.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <utility>

#include "parallel/comm/communicator.h"

namespace ddpbench::comm {

struct PeerWait {
  PeerWait(double seconds, std::function<void()> meanwhile = {})  // NOLINT: implicit by design
      : timeout_s(seconds), tell(std::move(meanwhile)) {}

  double timeout_s;
  // Called every kTellInterval by the thread that waits. May be empty.
  std::function<void()> tell;
};
inline constexpr auto kTellInterval = std::chrono::milliseconds(100);

// Whether `future` is ready before the time is up; tells meanwhile.
template <typename T>
bool is_ready_in_time(const std::future<T>& future, const PeerWait& wait) {
  using Clock = std::chrono::steady_clock;
  const Deadline deadline = deadline_after(wait.timeout_s);
  while (future.wait_until(std::min(deadline, Clock::now() + kTellInterval)) !=
         std::future_status::ready) {
    if (Clock::now() >= deadline) return false;
    if (wait.tell) wait.tell();
  }
  return true;
}

// Returns or throws what `blocks` does, which waits for peers with a deadline of its own and cannot
// call `tell` itself. It runs on another thread where `tell` is set.
template <typename Blocks>
auto tell_while(const PeerWait& wait, Blocks&& blocks) {
  if (!wait.tell) return blocks();
  auto result = std::async(std::launch::async, std::forward<Blocks>(blocks));
  while (result.wait_for(kTellInterval) != std::future_status::ready) wait.tell();
  return result.get();
}

}  // namespace ddpbench::comm
