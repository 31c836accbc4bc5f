// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Waiting: the deadline at which a blocking wait gives up, sleeping until a word changes, and calls
// that may hang.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace ddpbench::comm {

// The clock of deadlines: CLOCK_MONOTONIC without the time in which this process was stopped
// (Ctrl-Z, a debugger), or another one that it depends on (hold_while). Each wait reads this clock
// often, and a long time between two reads counts as a stop.
class DeadlineClock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<DeadlineClock>;
  static constexpr bool is_steady = true;

  // A longer time without a look is taken out. Machines with many ranks a core let a process wait
  // for a second.
  static constexpr duration kSuspended = std::chrono::seconds(2);
  // Waits sleep no longer between two looks.
  static constexpr duration kLongestSleep = std::chrono::milliseconds(500);

  // Thread-safe.
  static time_point now() noexcept;

  // The state of a process's clock, which modules share with the program (share()).
  class Pauses {
   public:
    // The clock's time when CLOCK_MONOTONIC shows `steady`.
    duration look(duration steady) noexcept;
    // From now on the clock stands still while `held`, asked twice a second, says so. It may be
    // called by any thread and does not throw.
    void hold_while(std::function<bool()> held);

   private:
    bool is_held(rep steady);

    std::mutex mutex_;
    std::function<bool()> held_;
    rep asked_ = 0;               // when held_ was
    bool was_held_ = false;       // what it said
    std::atomic<rep> looked_{0};  // at the last look, or shortly before
    std::atomic<rep> lost_{0};    // all that was taken out
  };

  // The CUDA module has a copy of this room. Deadlines pass between the copies, so it uses the
  // program's pauses. Call it before the module's first look.
  static Pauses& pauses() noexcept;
  static void share(Pauses& pauses) noexcept;
};

// Blocking waits throw CommTimeout after it.
using Deadline = DeadlineClock::time_point;

// NaN counts as passed. More than a year is a year, which does not overflow the clock.
Deadline deadline_after(double seconds);

inline bool has_passed(Deadline deadline) { return DeadlineClock::now() >= deadline; }

// How long a wait may sleep now: not beyond its deadline, and not longer than kLongestSleep. Not
// negative.
DeadlineClock::duration sleep_until_look(Deadline deadline);

// What `call` returns; nothing when it has not returned by then. It runs on a thread of its own,
// which lasts as long as the process where it hangs. Throws what it throws.
template <typename Call>
auto call_before(Deadline deadline, Call call) -> std::optional<decltype(call())> {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto made = task.get_future();
  std::thread(std::move(task)).detach();
  while (made.wait_for(sleep_until_look(deadline)) != std::future_status::ready) {
    if (has_passed(deadline)) return std::nullopt;
  }
  return made.get();
}

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

// A predicate that a function borrows for one call. With it, waits that take any lambda are
// ordinary functions. It allocates nothing.
class PredicateRef {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, PredicateRef>)
      PredicateRef(F&& f)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object) -> bool {
          return (*static_cast<std::remove_reference_t<F>*>(object))();
        }) {}
  bool operator()() const { return call_(object_); }

 private:
  void* object_;
  bool (*call_)(void*);
};

}  // namespace ddpbench::comm
